"""Forecast: does a study's noise leave relations between attributes? Public numbers only.

Two columns with variances v_i and v_j have a covariance of ``phi sqrt(v_i v_j)``, where phi is
their correlation, at most 1. A release holds their product with noise of standard deviation s, so
phi is known with noise of ``s / sqrt(v_i v_j)``. Variances of real rows are unknown before a study;
evenly spread values have 1/12 for a numeric, 1/4 for a binary, ``(1 - 1/K) / K`` for each label of
a categorical with K, or bin of a numeric with ``products: bins``. If, for the median pair of
attributes, the noise of phi is above `LOST_FROM`, the field that is fitted to the release
(`dppca.common.analysis.field`) finds no coupling that the noise could not explain: its rows
have the shares of each attribute, and no relations. So a warning is given for

    s > 0.4 * (median over pairs of attributes a, b of sqrt(v_a v_b))                           (1)

For products with targets, s is divided by their weight, and the median is over their pairs.
Measured on tables of ten schemas whose attributes depend on each other strongly; weaker relations
are lost at less noise: ``docs/decisions/0127-when-noise-leaves-no-relations.md``.

The noise is proportional to ``sqrt(m) / n`` for n rows of m owners. If it is f times its limit, f
times the rows of each owner are enough, or f^2 times the owners, or the epsilon of noise that is f
times less. With ``trust: aggregate``, where h owners make one mechanism, it is proportional to
``sqrt(m / h) / n``, and m' owners are enough if ``m' h' >= f^2 m h``, where as many may be missing
or collude as now: ``m' - h' = m - h``.

Limits: a rule of thumb about typical pairs; the release may show a single strong relation above the
limit. A numeric that fills a part f of its bounds has a deviation f times as large, and loses its
relations with others from f times the limit on; f is unknown before a study, so the text names it.
Rows of the unit ball and single attributes have no field, and are not judged.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from itertools import combinations_with_replacement
from math import ceil, sqrt
from typing import Annotated

from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from dppca.common.kernel.study import Study

LOST_FROM = 0.4
"""Standard deviation of a correlation's noise from which on the correlation is lost."""
_THREE_DIGITS = Context(prec=3, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class ProductNoise:
    """Noise of one kind of products."""

    products: Annotated[str, "`all`, `with targets` or `without targets`"]
    noise: Annotated[float, "standard deviation of their noise, as a share of the rows"]
    limit: Annotated[float, "share of the rows from which on their relations are lost"]
    lost: Annotated[bool, "whether the noise is above the limit"]


@dataclass(frozen=True, slots=True)
class Relations:
    """Forecast of relations in synthetic rows; the sufficient values are null if relations show."""

    products: Annotated[tuple[ProductNoise, ...], "kinds of products"]
    warning: Annotated[tuple[str, ...], "what will be lost, and what would be enough, in words"]
    epsilon: Annotated[Decimal | None, "an epsilon of each owner that would be enough, rounded up"]
    rows_per_owner: Annotated[int | None, "rows of each owner that would be enough, on average"]
    owners: Annotated[int | None, "owners that would be enough, with as many rows each"]
    assumption: Annotated[str | None, "what it assumes of numerics, in words; null without any"]


def judge_relations(
    study: Study, calibration: Calibration, *, owner_rows: Sequence[int]
) -> Relations | None:
    """Compare a study's noise with rule (1).

    ``calibration`` is the study's, by `dppca.common.kernel.privacy.release.calibrate`;
    ``owner_rows`` are the rows of each owner that takes part, all at least 1. Return None for rows
    of the unit ball and for a single attribute.
    """
    layout = study.table.layout
    if layout.unit_ball or len(layout.groups) < 2:
        return None
    noise = entry_noise(
        layout,
        deviation=calibration.law.deviation,
        owner_rows=owner_rows,
        mechanisms=calibration.mechanisms(len(owner_rows)),
    )
    targets = study.table.targets
    names = ("with targets", "without targets" if targets else "all")
    weights = (layout.target_weight, 1)
    products = tuple(
        ProductNoise(name, noise / weight, limit, lost=noise / weight > limit)
        for name, limit, weight in zip(names, _limits(layout), weights, strict=True)
        if limit is not None
    )
    excess = max(each.noise / each.limit for each in products)
    assumption = None
    if ColumnKind.NUMERIC in layout.kinds:
        assumption = _assumption(excess)
    if excess <= 1:
        return Relations(products, (), None, None, None, assumption)
    epsilon, rows, owners = _enough(calibration, owner_rows, excess)
    warning = _warning(products, targets, epsilon, rows, owners)
    return Relations(products, warning, epsilon, rows, owners, assumption)


def _enough(
    calibration: Calibration, owner_rows: Sequence[int], excess: float
) -> tuple[Decimal, int, int]:
    """Return an epsilon, rows of each owner and a number of owners; each alone is enough."""
    law = calibration.law
    return (
        least_epsilon(calibration, law.width / excess),
        ceil(sum(owner_rows) / len(owner_rows) * excess),
        least_owners(len(owner_rows), excess, honest=calibration.n_honest_owners),
    )


def least_owners(n_owners: int, excess: float, *, honest: int | None) -> int:
    """Number of owners, with as many rows each, whose pool has ``excess`` times less noise.

    ``honest`` is h, if owners make the noise together: as many may be missing or collude as now.
    """
    if honest is None:
        return ceil(n_owners * excess**2)
    others = n_owners - honest
    return ceil((others + sqrt(others**2 + 4 * n_owners * honest * excess**2)) / 2)


def least_epsilon(calibration: Calibration, width: float) -> Decimal:
    """Epsilon of a study's law of noise at another width: three digits, rounded up.

    ``width`` is b or sigma, or what the law calls so, in units of ``4**-g``, above 0.
    """
    sens, k = calibration.sensitivity, calibration.factor
    epsilon = calibration.law.epsilon_at(width, sens, k, calibration.delta)
    return Decimal(format(_THREE_DIGITS.create_decimal(epsilon).normalize(), "f"))


def _limits(layout: Layout) -> tuple[float | None, float | None]:
    """Return the limits (1) for products with targets, and for the others."""
    classes = Counter(
        (_even_variance(layout.attribute_kinds[index], stop - start), index in layout.targets)
        for index, (start, stop) in enumerate(layout.groups)
    )
    reaches: dict[bool, Counter[float]] = {True: Counter(), False: Counter()}
    for (a, n_a), (b, n_b) in combinations_with_replacement(classes.items(), 2):
        n_pairs = n_a * (n_a - 1) // 2 if a == b else n_a * n_b
        reaches[a[1] or b[1]][sqrt(a[0] * b[0])] += n_pairs
    with_targets, others = (_median(reaches[each]) for each in (True, False))
    return (
        None if with_targets is None else LOST_FROM * with_targets,
        None if others is None else LOST_FROM * others,
    )


def _even_variance(kind: ColumnKind, n_labels: int) -> float:
    """Variance of a column whose values are spread evenly, squared coded units."""
    if kind is ColumnKind.INDICATOR:
        return (1 - 1 / n_labels) / n_labels
    return 1 / 12 if kind is ColumnKind.NUMERIC else 1 / 4


def _median(counts: Counter[float]) -> float | None:
    """Return the lower median of counted values; None without values."""
    half, passed = counts.total() / 2, 0
    for value in sorted(counts):
        passed += counts[value]
        if passed >= half > 0:
            return value
    return None


def _warning(
    products: Sequence[ProductNoise],
    targets: Sequence[str],
    epsilon: Decimal,
    rows_per_owner: int,
    owners: int,
) -> tuple[str, ...]:
    lost = [each for each in products if each.lost][-1]
    if all(each.lost for each in products):
        what = "Synthetic rows will show each attribute on its own, but no relations between them."
    elif lost is products[-1]:
        what = (
            f"Synthetic rows will show relations with {', '.join(targets)}, and each other "
            "attribute on its own, but no relations between these others."
        )
    else:
        what = f"Synthetic rows will show no relations with {', '.join(targets)}."
    return (
        f"WARNING: THE NOISE HIDES RELATIONS. {what}",
        f"The noise of such a product is {_share(lost.noise)} of the rows (standard deviation); "
        f"with this schema, relations are lost from {_share(lost.limit)} upwards.",
        f"One of these would be enough: epsilon {decimal_text(epsilon)}, or {rows_per_owner} rows "
        f"of each owner, or {owners} owners with as many rows each.",
    )


def _assumption(excess: float) -> str:
    """Return the text of the judgement's assumption on numerics."""
    if excess > 1:
        return (
            "This assumes that numbers use their full range. Numbers that use a small part of it, "
            "such as skewed amounts, lose their relations at less noise."
        )
    return (
        "Synthetic rows will show relations only of numbers that use more than about "
        f"{_share(excess)} of their range. If one is skewed, such as an amount of money, "
        "`score: log` or tighter bounds help. `synthesize` says which were lost."
    )


def relations_lines(found: Relations | None) -> list[str]:
    """Return the lines of the warning, if there is one, and of its assumption."""
    if found is None:
        return []
    return [*found.warning, *([] if found.assumption is None else [found.assumption])]


def _share(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"
