"""Settings of the estimators, checked when they are fitted.

scikit-learn builds and clones estimators without looking at their settings, so nothing is refused
before ``fit``. There is no default epsilon: ``epsilon=None`` says that none was given, and fitting
refuses it. Privacy parameters become exact decimals through their text, so that 0.1 is 1/10 and
not the binary fraction beside it.

``entropy`` is a *maker* of an `EntropySource`, called once per fit, because an estimator's settings
must survive copying and a source's state must not. None stands for the operating system's, the
only one with which anything is labelled as released.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

from common.errors import SettingError
from common.methods.guarantee import Variant
from common.privacy.accounting import DECIMALS, require_delta, require_epsilon
from common.privacy.entropy import EntropySource, OperatingSystemEntropy
from common.privacy.labels import Label

EntropyMaker = Callable[[], EntropySource]


def epsilon_of(value: object, *, name: str = "epsilon") -> Decimal:
    """An epsilon above 0 as an exact decimal."""
    if value is None:
        message = f"{name} is not given and has no default: choose one above 0, such as {name}=1"
        raise SettingError(message)
    epsilon = _decimal(name, value)
    if not epsilon > 0:
        message = f"{name} is {value}; it must be above 0"
        raise SettingError(message)
    require_epsilon(epsilon)
    return epsilon


def delta_of(value: object) -> Decimal:
    """A delta strictly between 0 and 1 as an exact decimal."""
    if value is None:
        message = (
            "delta is not given and Gaussian noise needs one: choose a number far below one over "
            "the number of rows, such as delta=1e-9"
        )
        raise SettingError(message)
    delta = _decimal("delta", value)
    require_delta(delta)
    return delta


def no_delta(value: object, *, instead: str) -> None:
    """Refuse a delta where the noise gives pure epsilon."""
    if value is not None:
        message = f"delta is {value}, but Laplace noise needs none: leave it out, or use {instead}"
        raise SettingError(message)


def variant_of(value: object, *, allowed: tuple[Variant, ...] = tuple(Variant)) -> Variant:
    """One of the allowed variants."""
    if value not in allowed:
        choice = " or ".join(repr(str(each)) for each in allowed)
        message = f"variant is {value!r}; it must be {choice}"
        raise SettingError(message)
    return Variant(str(value))


def above_zero(name: str, value: object) -> float:
    """A finite number above 0."""
    number = _real(name, value)
    if not number > 0:
        message = f"{name} is {value}; it must be above 0"
        raise SettingError(message)
    return number


def share_of(name: str, value: object) -> float:
    """A number strictly between 0 and 1."""
    number = _real(name, value)
    if not 0 < number < 1:
        message = f"{name} is {value}; it must lie between 0 and 1, both excluded"
        raise SettingError(message)
    return number


def count_of(name: str, value: object, *, largest: int | None = None, why: str = "") -> int:
    """An integer from 1 to ``largest``; ``why`` is said where it is larger."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        message = f"{name} is {value!r}; it must be an integer, 1 or more"
        raise SettingError(message)
    if largest is not None and value > largest:
        message = f"{name} is {value}; it must be at most {largest}{why}"
        raise SettingError(message)
    return int(value)


def norm_of(row_norm: object, variant: Variant) -> float:
    """The declared bound on a row's norm; 1 where a published form runs without holding rows to it.

    The noise of a published form is its paper's for rows in the unit ball, times the bound.
    """
    if row_norm is None and variant is Variant.SOUND:
        message = "row_norm is None; a sound form needs a public bound on the norm of a row"
        raise SettingError(message)
    return 1.0 if row_norm is None else above_zero("row_norm", row_norm)


def entropy_of(maker: Any) -> EntropySource:
    """The source of one fit's noise."""
    if maker is None:
        return OperatingSystemEntropy()
    if not callable(maker):
        message = (
            "entropy must be None (the operating system) or something that makes a source when "
            "called, such as functools.partial(SeededEntropy, 7) in a test"
        )
        raise SettingError(message)
    source: EntropySource = maker()
    return source


def label_of(maker: Any) -> Label:
    """Released, unless the noise could be drawn again and subtracted."""
    return Label.SITE_ONLY if repeatable(maker) else Label.RELEASED


def repeatable(maker: Any) -> str:
    """What a guarantee says of noise that is not the operating system's; empty where it is."""
    if maker is None or maker is OperatingSystemEntropy:
        return ""
    return "; the noise is of a source chosen by the caller, for tests, and protects nothing"


def rounded_up(amount: float | Fraction) -> Decimal:
    """A cost as a decimal that is not below it, with 12 decimals."""
    return Decimal(f"{math.ceil(Fraction(amount) * 10**DECIMALS)}E-{DECIMALS}")


def _decimal(name: str, value: object) -> Decimal:
    try:
        number = Decimal(str(value)) if not isinstance(value, bool) else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        message = f"{name} is {value!r}; it must be a finite number"
        raise SettingError(message)
    return number


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        message = f"{name} is {value!r}; it must be a number"
        raise SettingError(message)
    number = float(value)
    if not math.isfinite(number):
        message = f"{name} is {value}; it must be finite"
        raise SettingError(message)
    return number
