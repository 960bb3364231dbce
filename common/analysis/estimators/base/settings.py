"""Settings of the estimators, checked when they are fitted.

scikit-learn builds and clones estimators without looking at their settings, so nothing is refused
before ``fit``. No privacy parameter has a default: ``epsilon=None`` or ``max_rows_per_person=None``
means that none was given, and fitting refuses it. Privacy parameters become exact decimals through
their text, so that 0.1 is 1/10 and not the nearest binary fraction.

``entropy`` is a *maker* of an `EntropySource`, called once per fit, because an estimator's settings
must survive copying and a source's state must not. None stands for the operating system's, the only
one whose results are labelled as released.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from dppca.common.analysis.estimators.base.guarantee import Variant
from dppca.common.kernel.documents.amounts import parse_decimal
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import require_delta, require_epsilon
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.noise.entropy import EntropySource, OperatingSystemEntropy

EntropyMaker = Callable[[], EntropySource]


def parse_epsilon(value: object, *, name: str = "epsilon") -> Decimal:
    """Convert an epsilon above 0 to an exact decimal."""
    if value is None:
        raise SettingError(
            f"{name} is not given and has no default: choose one above 0, such as {name}=1 in "
            f"Python or --{name} 1 in a command"
        )
    epsilon = _decimal(name, value)
    if not epsilon > 0:
        raise SettingError(f"{name} is {value}; it must be above 0")
    require_epsilon(epsilon)
    return epsilon


def parse_delta(value: object) -> Decimal:
    """Convert a delta strictly between 0 and 1 to an exact decimal."""
    if value is None:
        raise SettingError(
            "delta is not given and Gaussian noise needs one: choose a number far below one over "
            "the number of rows, such as delta=1e-9 in Python or --delta 1e-9 in a command"
        )
    delta = _decimal("delta", value)
    require_delta(delta)
    return delta


def refuse_delta(value: object, *, instead: str) -> None:
    """Raise `SettingError` if a delta is given although the noise gives pure epsilon."""
    if value is not None:
        raise SettingError(
            f"delta is {value}, but Laplace noise needs none: leave it out, or use {instead}"
        )


def check_variant(value: object, *, allowed: tuple[Variant, ...] = tuple(Variant)) -> Variant:
    """Return the variant if it is allowed."""
    if value not in allowed:
        choice = " or ".join(repr(str(each)) for each in allowed)
        raise SettingError(f"variant is {value!r}; it must be {choice}")
    return Variant(str(value))


def check_positive(name: str, value: object) -> float:
    """Return a finite number above 0."""
    number = _real(name, value)
    if not number > 0:
        raise SettingError(f"{name} is {value}; it must be above 0")
    return number


def check_share(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1."""
    number = _real(name, value)
    if not 0 < number < 1:
        raise SettingError(f"{name} is {value}; it must lie between 0 and 1, both excluded")
    return number


def check_positive_int(
    name: str, value: object, *, largest: int | None = None, why: str = ""
) -> int:
    """Return an integer from 1 to ``largest``; ``why`` completes the message for a larger one."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise SettingError(f"{name} is {value!r}; it must be an integer, 1 or more")
    if largest is not None and value > largest:
        raise SettingError(f"{name} is {value}; it must be at most {largest}{why}")
    return int(value)


def check_rows_per_person(value: object) -> int:
    """Return the most rows that one person may have; every sensitivity is multiplied by it."""
    if value is None:
        raise SettingError(
            "max_rows_per_person is not given and has no default: write max_rows_per_person=1 if "
            "no person has more than one row, or the largest number of rows that one person may "
            "have"
        )
    return check_positive_int("max_rows_per_person", value)


def check_row_norm(row_norm: object, variant: Variant) -> float:
    """Return the declared bound on a row's norm; 1 for a published form without a bound.

    The noise of a published form is its paper's for rows in the unit ball, times the bound.
    """
    if row_norm is None and variant is Variant.SOUND:
        raise SettingError(
            "row_norm is None; a sound form needs a public bound on the norm of a row"
        )
    return 1.0 if row_norm is None else check_positive("row_norm", row_norm)


def make_entropy(maker: Any) -> EntropySource:
    """Return the source of one fit's noise."""
    if maker is None:
        return OperatingSystemEntropy()
    if not callable(maker):
        raise SettingError(
            "entropy must be None (the operating system) or something that makes a source when "
            "called, such as functools.partial(SeededEntropy, 7) in a test"
        )
    source: EntropySource = maker()
    return source


def choose_label(maker: Any) -> Label:
    """Return the label: released, unless the noise could be drawn again and subtracted."""
    return Label.SITE_ONLY if describe_repeatability(maker) else Label.RELEASED


def describe_repeatability(maker: Any) -> str:
    """Text of a guarantee on noise not from the operating system; else empty."""
    if maker is None or maker is OperatingSystemEntropy:
        return ""
    return "; the noise is of a source chosen by the caller, for tests, and protects nothing"


def _decimal(name: str, value: object) -> Decimal:
    try:
        return parse_decimal(value)
    except ValueError as error:
        raise SettingError(f"{name} is {value!r}; it {error}") from error


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise SettingError(f"{name} is {value!r}; it must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise SettingError(f"{name} is {value}; it must be finite")
    return number
