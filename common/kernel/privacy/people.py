"""Sensitivity of sums over people, each of whom weighs as one row, or c, whatever they have.

Let v(r) be the packed vector of one row r, in integers. A person with k rows r_1 … r_k adds, before
the division (`dppca.common.kernel.moments.people`),

    S = a (v(r_1) + … + v(r_k)) + (M - a k) v_0,     a = floor(M / k),  M = 720720,             (1)

where v_0 is the vector of a public default row. The factors are whole, none is below 0, and they
add up to M: S is M times an average of vectors of rows, whatever k is.

Replacing a person by another with any number k' of rows changes the sum by S - S', M times an
element of conv(V) - conv(V), V being the vectors of all possible rows. A norm is convex, and its
supremum over conv(V) - conv(V) is that over V - V, because a convex function on a convex hull is
largest at a point that was hulled. So with Delta the sensitivity to one replaced row, in L1 or L2,

    |S - S'| <= M Delta.                                                                        (2)

What is released is A, the sum of (1) over all people, divided by M once and rounded down in each of
its D entries. With neighbours A and A', and d = (A - A')/M, entry i of the release changes by
less than |d_i| + 1, because rounding down moves either by less than 1 and both in one direction. So
the change is at most

    Delta_1 + D  in L1,        Delta_2 + sqrt(D)  in L2,                                        (3)

the second by the triangle inequality: sqrt(D) is added to the norm and not to its square. Where
products have half of the noise's variance (``halved_products``), Delta_2 is of a norm that counts
them twice, and so are they in D there.

A person who is added changes the sum by S alone, an element of M conv(V), so Delta is then the
sensitivity to an added row, with the same addends. Where k rows weigh as min(k, c)
(``rows_counted``), S is M min(k, c) times an average, at most M c times one: then c Delta takes the
place of Delta. A replaced person goes from weight m to m', both from 1 to c. The change is convex
in both, so largest at their ends: c times a replaced row or, by the triangle inequality, a replaced
row and c - 1 added ones,

    max(c Delta, (c - 1) Delta_added + Delta),                                                  (4)

the total weight being an entry. It is the claim of a study of replaced people, and it prices one of
added people where people are replaced.

Where people are replaced, their number is the same in neighbouring tables and is public. Neither
the number of rows nor, with c above 1, the total weight is: the first is in no release but through
(1), the second leaves with noise.

Limits: at g = 10 the addend D is nothing beside Delta_1; at g = 1 it may be half of it. (2) is
reached where (1) of one row is. Which rows are one person's is what the owner's column says.

Source: derived for this project.
"""

from math import isqrt
from types import MappingProxyType

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity

_OF_PEOPLE = MappingProxyType(
    {
        Relation.REPLACE_ONE: Relation.REPLACE_PERSON,
        Relation.ADD_OR_REMOVE_ONE: Relation.ADD_OR_REMOVE_PERSON,
    }
)


def of_people(
    row: Sensitivity, *, n_entries: int, n_halved: int = 0, rows_counted: int = 1
) -> Sensitivity:
    """Return the sensitivity to one person, equation (3).

    ``row`` is that to one row, by any relation; ``n_entries`` is D, each of which is rounded once;
    ``n_halved`` of them have half of the noise's variance; ``rows_counted`` is c, above 1 for added
    people alone: for replaced ones it is in ``row`` already (`of_weighed_rows`).
    """
    if n_entries < 1 or row.relation not in _OF_PEOPLE:
        raise SettingError("people change sums of one entry or more, as rows do")
    if rows_counted > 1 and row.relation is not Relation.ADD_OR_REMOVE_ONE:
        raise SettingError("people who weigh as several rows are added or removed, not replaced")
    l2_squared = rows_counted**2 * row.l2_squared
    moved = n_entries + n_halved
    return Sensitivity(
        l1=rows_counted * row.l1 + n_entries,
        l2_squared=_square_of_sum(l2_squared, moved),
        resolution_bits=row.resolution_bits,
        relation=_OF_PEOPLE[row.relation],
    )


def of_weighed_rows(row: Sensitivity, added: Sensitivity, *, rows_counted: int) -> Sensitivity:
    """Return (4), before the division, of a ``row`` that is replaced and one that is ``added``."""
    c = rows_counted
    both = _square_of_sum((c - 1) ** 2 * added.l2_squared, row.l2_squared)
    squared = max(c**2 * row.l2_squared, both)
    l1 = max(c * row.l1, (c - 1) * added.l1 + row.l1)
    return Sensitivity(l1, squared, row.resolution_bits, row.relation)


def _square_of_sum(one: int, other: int) -> int:
    """Return the square of the sum of two norms, rounded up, from their squares."""
    cross = 4 * one * other
    root = isqrt(cross)
    return one + other + root + (root * root < cross)
