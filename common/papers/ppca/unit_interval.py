"""Cost of noise on the moments of rows in [0, 1], not derived by Gu et al. (2022).

A party releases, of rows coded in [0, 1], the mean and the second moment, with noise on every
entry. One row x -> y moves them, times the number of rows, by

    L1 = sum_i |x_i - y_i| + sum_(i<=j) h_ij |x_i x_j - y_i y_j|                                (1)

with ``h_ii = 1`` and, for two columns, h = 1 if one triangle is noised and mirrored and h = 2 if
both entries are noised. For Q scalars (numerics and binaries) and c categoricals coded as
indicators, t of which change: put M = max(x, y) and m = min(x, y) of each scalar. A product moves
by at most ``M M' - m m'``, with equality if all scalars rise together; everything grows with M, so
M = 1. With ``Y = sum m`` and ``Y2 = sum m^2`` there remains

    L1 = 2Q + h C(Q,2) + h c Q + 4t + 2h [C(c,2) - C(c-t,2)]
         - (1 + h (c - 2t)) Y - (1 - h/2) Y2 - (h/2) Y^2                                        (2)

which is concave: s binaries stay at 1, and all q numerics take the same m,

    m = clip((2ht - hc - 1 - hs) / (2 - h + hq), 0, 1).                                         (3)

For scalars alone m = 0 everywhere: ``p (p + 3)/2``, or ``p (p + 1)`` with h = 2. Indicators cost
far less, because a categorical sets only one of them, for any number of labels.

Limits: rows attain the maximum, except numerics off the grid. Mean *and* second moment count as
released, as in the paper's proof.

Source: derived for this project, for algorithm 1 of Gu, Zhang and Yang (2022); their theorem 4 has
p/n for each of the two.
"""

from fractions import Fraction
from math import comb

from dppca.common.kernel.privacy.sensitivity import BoxShape


def unit_interval_l1(shape: BoxShape, *, both_triangles: bool) -> Fraction:
    """Largest (1) over a schema's rows, for n times the moments; the weight of sums is 1.

    ``both_triangles`` gives entries (i, j) and (j, i) noise of their own: h = 2.
    """
    staying = range(shape.n_scalars - shape.n_numeric + 1)
    changed = range(shape.n_categoricals + 1)
    h = 2 if both_triangles else 1
    return max(_largest(shape, h, t, s) for t in changed for s in staying)


def _largest(shape: BoxShape, h: int, t: int, s: int) -> Fraction:
    """Equation (2) at the m of (3), for t changed categoricals and s binaries that stay at 1."""
    Q, q, c = shape.n_scalars, shape.n_numeric, shape.n_categoricals
    m = Fraction(0)
    if q:
        best = Fraction(2 * h * t - h * c - 1 - h * s, 2 - h + h * q)
        m = min(max(best, Fraction(0)), Fraction(1))
    Y, Y2 = s + q * m, s + q * m * m
    fixed = 2 * Q + h * comb(Q, 2) + h * c * Q + 4 * t + 2 * h * (comb(c, 2) - comb(c - t, 2))
    return fixed - (1 + h * (c - 2 * t)) * Y - (1 - Fraction(h, 2)) * Y2 - Fraction(h, 2) * Y * Y
