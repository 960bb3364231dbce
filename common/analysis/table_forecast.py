"""Forecast of two-way tables of synthetic rows: how far a study's noise puts them off.

Only the schema and the noise enter: values are taken to be spread evenly, as in
`dppca.common.analysis.estimators.relations`. A product of two attributes of weight w has noise with
standard deviation s / w, as a share of the rows. Each cell of the pair's table then has noise of r
times its share,

    r^2 = (c_a c_b s / w)^2 + (c_a s_a)^2 + (c_b s_b)^2                                         (1)

where s_a is the noise of the numbers from which a's own shares are known (sums, or a histogram),
and c is how much a table feels the noise: ``sqrt(K (m - 1))`` for K labels or bins, of which m are
told apart (all; of the cells of a histogram `SMOOTHED`, as it is smoothed before rows are drawn of
it: `dppca.common.analysis.field.smoothing` has what a normal law and two humps then keep of the
noise); 2 for a binary, whose product is ±1/4; 3 for a numeric that is one column, which has
``E|x| / E x^2 = 3`` on [-1/2, 1/2].

Shares are not negative and add up to 1. The nearest ones to noised shares ``p (1 + r Z)`` are
``p (1 + r Z - t)_+`` with t such that they add up, and their total variation from p is ::

    E (1 - (1 + r Z - t)_+)_+     where     E (1 + r Z - t)_+ = 1                               (2)

for Z a standard normal: about ``0.4 r`` for little noise, and never more than 1.

What is not in it: values that are not spread evenly (rare labels lose less, and numbers that fill a
small part of their bounds more), relations that products of pairs do not hold, and the chance with
which rows are drawn. The field takes relations that the noise could explain to be none, so much
noise costs what the relations were worth, which may be far less: a large figure is a bound.
``docs/reference/synthesis.md`` has forecasts beside what was measured.
"""

from collections import Counter
from itertools import combinations_with_replacement
from math import exp, hypot, pi, sqrt

from dppca.common.kernel.schema.layout import ColumnKind, Layout

SMOOTHED = 10
_LITTLE, _MUCH = 1e-4, 1e6  # times a cell's share; beyond both, (2) has reached its limits


def forecast_tables(layout: Layout, noise: float) -> float | None:
    """Forecast the total variation of two-way tables, the mean over all pairs of attributes.

    ``noise`` is that of a pooled product of weight 1, by
    `dppca.common.analysis.spectrum.noise_edge.entry_noise`. Return None for rows of the unit ball
    and for a single attribute.
    """
    if layout.unit_ball or len(layout.groups) < 2:
        return None
    sums = layout.scaled_weight / 2**layout.resolution_bits
    histograms = dict(layout.histograms)
    classes: Counter[tuple[float, float, bool]] = Counter()
    for index, (start, stop) in enumerate(layout.groups):
        felt = _felt(layout.attribute_kinds[index], stop - start)
        own = felt / sums
        if index in histograms:
            cells = histograms[index]
            own = sqrt(cells * (min(cells, SMOOTHED) - 1)) / float(layout.histogram_weight)
        classes[felt, own, index in layout.targets] += 1
    total = pairs = 0.0
    for (one, n_one), (other, n_other) in combinations_with_replacement(classes.items(), 2):
        many = n_one * (n_one - 1) / 2 if one == other else n_one * n_other
        (felt_a, own_a, target_a), (felt_b, own_b, target_b) = one, other
        weight = layout.target_weight if target_a or target_b else 1
        total += many * noised_variation(noise * hypot(felt_a * felt_b / weight, own_a, own_b))
        pairs += many
    return total / pairs


def noised_variation(noise: float) -> float:
    """Total variation (2) of shares whose cells each have noise of ``noise >= 0`` times the share.

    It rises with the noise, from 0 to 1.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    if noise < _LITTLE:
        return noise * _density(0.0)
    r = min(noise, _MUCH)
    # With t = 1 + r u, (2) asks for E (Z - u)_+ = 1 / r, which falls in u and is above -u.
    u = brentq(lambda u: _density(u) - u * ndtr(-u) - 1 / r, -1 / r - 1, 10.0)
    top = u + 1 / r  # cells above it have more than their share
    part = r * (top * (ndtr(top) - ndtr(u)) + _density(top) - _density(u))
    return float(min(1.0, ndtr(u) + part))


def _density(z: float) -> float:
    return exp(-z * z / 2) / sqrt(2 * pi)


def _felt(kind: ColumnKind, n_columns: int) -> float:
    if kind is ColumnKind.INDICATOR:
        return sqrt(n_columns * (n_columns - 1))
    return 3.0 if kind is ColumnKind.NUMERIC else 2.0
