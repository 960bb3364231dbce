"""How fast exact noise is drawn, beside OpenDP's exact samplers, and shares of it beside all of it.

All draw from the operating system's entropy, as a release does.
"""

from collections.abc import Callable
from functools import partial

import opendp.prelude as dp

from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable, Run
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.noise.sampler import discrete_gaussian, discrete_laplace
from dppca.common.kernel.privacy.noise.shares import gaussian_share, laplace_share

TITLE = "Exact noise"
ABOUT = """
Two million draws of the discrete Laplace and the discrete Gaussian law, exact, from the operating
system's entropy, on one core. OpenDP's samplers of the same laws, exact too, draw fewer and are
counted per draw. Shares are drawn by one owner where 2, 9 or 34 of them add up to one such noise;
Laplace shares from a stream that is keyed from the operating system.
"""

DRAWS = 2_000_000
SCALES = (1, 1000, 42_000_000, 2**40)
HONEST = (2, 9, 34)


_LAWS: dict[str, tuple[Callable[..., object], Callable[..., object], int]] = {
    "Laplace": (discrete_laplace, laplace_share, 1),
    "Gaussian": (discrete_gaussian, gaussian_share, 2),
}
"""Samplers of all of the noise and of a share, and the power of the scale that they are given."""


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both laws at several scales, whole and in shares."""
    return [_beside_opendp(plan), _shares(plan)]


def _beside_opendp(plan: BenchmarkPlan) -> FigureTable:
    dp.enable_features("contrib")
    ours, theirs = (20_000, 500) if plan.quick else (DRAWS, 50_000)
    work = {"ours": ours, "OpenDP": theirs}
    rows: list[tuple[Cell, ...]] = []
    for law in _LAWS:
        for scale in SCALES:
            plan.say(f"{law} of scale {scale}")
            subjects: dict[str, Run] = {
                "ours": _whole(law, scale, ours),
                "OpenDP": partial(_opendp(law, scale), [0] * theirs),
            }
            mine, other = plan.race(subjects, work=work).values()
            rows.append((law, scale, DRAWS / mine.rate, DRAWS / other.rate, mine.gains(other)[0]))
    return FigureTable(
        "Seconds for two million draws.",
        ("law", "scale", "DPPCA", "OpenDP", "ratio"),
        tuple(rows),
    )


def _shares(plan: BenchmarkPlan) -> FigureTable:
    draws = 20_000 if plan.quick else DRAWS // 4
    rows: list[tuple[Cell, ...]] = []
    for law, (_, share, power) in _LAWS.items():
        for scale in SCALES[1:]:
            plan.say(f"shares of {law} noise of scale {scale}")
            subjects = {"whole": _whole(law, scale, draws)}
            for honest in HONEST:
                subjects[str(honest)] = _drawing(share, scale**power, honest, draws)
            timings = plan.race(subjects, work=draws)
            one, per = timings.pop("whole"), 1e6 / draws
            rows += [
                (law, scale, honest, each.median_s * per, one.median_s * per, *each.gains(one))
                for honest, each in zip(HONEST, timings.values(), strict=True)
            ]
    return FigureTable(
        "Microseconds for the noise of one entry: a share, and all of it in the same run.",
        ("law", "scale", "shares", "one share", "whole", "ratio", "by processor time"),
        tuple(rows),
    )


def _whole(law: str, scale: int, draws: int) -> Run:
    sampler, _, power = _LAWS[law]
    return _drawing(sampler, scale**power, draws)


def _drawing(sampler: Callable[..., object], *given: int) -> Run:
    return lambda: sampler(*given, entropy=OperatingSystemEntropy())


def _opendp(law: str, scale: int) -> Callable[[list[int]], object]:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law == "Laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(scale))
