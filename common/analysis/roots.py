"""A root of a function between two numbers, without SciPy, which loads for a quarter of a second.

Source: R. P. Brent, Algorithms for minimization without derivatives (1973), chapter 4; the same
steps as `scipy.optimize.brentq`, so the same number.
"""

from collections.abc import Callable
from math import copysign

_MOST_STEPS = 100  # the bound of `brentq` too; some ten are usual
_RELATIVE = 2.0**-50  # of a root: four times the distance of two doubles at 1


def find_root(
    function: Callable[[float], float], low: float, high: float, *, within: float = 2e-12
) -> float:
    """Return a root in [low, high] with an error of at most ``within``, plus rounding.

    The function must have another sign at each end; `ValueError` otherwise, or without an end.
    """
    before, now = low, high
    f_before, f_now = float(function(before)), float(function(now))
    if f_before == 0:
        return before
    if f_now == 0:
        return now
    if copysign(1, f_before) == copysign(1, f_now):
        raise ValueError("a function without a change of sign between two numbers")
    across = f_across = last = step = 0.0  # the root lies between `now` and `across`
    for _ in range(_MOST_STEPS):
        if copysign(1, f_before) != copysign(1, f_now) and f_before != 0 and f_now != 0:
            across, f_across = before, f_before
            last = step = now - before
        if abs(f_across) < abs(f_now):
            before, now, across = now, across, now
            f_before, f_now, f_across = f_now, f_across, f_now
        near = (within + _RELATIVE * abs(now)) / 2
        half = (across - now) / 2
        if f_now == 0 or abs(half) < near:
            return now
        if abs(last) > near and abs(f_now) < abs(f_before):
            if before == across:
                tried = -f_now * (now - before) / (f_now - f_before)
            else:
                first = (f_before - f_now) / (before - now)
                second = (f_across - f_now) / (across - now)
                tried = (
                    -f_now
                    * (f_across * second - f_before * first)
                    / (second * first * (f_across - f_before))
                )
            is_short = 2 * abs(tried) < min(abs(last), 3 * abs(half) - near)
            last, step = (step, tried) if is_short else (half, half)
        else:
            last = step = half
        before, f_before = now, f_now
        now += step if abs(step) > near else copysign(near, half)
        f_now = float(function(now))
    raise ValueError(f"no root after {_MOST_STEPS} steps")
