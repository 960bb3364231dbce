"""Guarantee to one person from the releases of several owners together.

Each release is differentially private in its owner's rows. If a person has rows at one owner only,
the person loses as much as the owner's release: over all people, the largest epsilon and,
separately, the largest delta. Where the sites declare that people may have rows at several owners,
a person of such a group loses at most the sum over the group (basic composition; Dwork, Kenthapadi,
McSherry, Mironov and Naor 2006), and the figure is the largest sum over the groups, an owner in no
group being a group of its own. ``overlap: true`` makes one group of all owners.

All owners of the study are counted, also those that are listed as missing. A curator could pool an
owner's release and leave its name out, and a holder of the result cannot check an absence. All
releases of a study make the same claim, so a group's sum is that claim times its size.

With ``trust: aggregate`` there is one release, the sum over the owners, with at least the noise of
one mechanism. A person in a group of G owners changes it by G times as much as a person at one
owner, so Laplace noise promises G epsilon, and Gaussian noise of rho promises zCDP of

    G^2 rho,  as epsilon at the study's own delta.                                             (1)

A study that continues another releases something about the same people once more, so what is made
of both results costs a person both: epsilon and delta add up or, if the noise of both is Gaussian,
rho adds up, and is stated as epsilon at the larger of their deltas.

Limits: which people overlap is the sites' assertion.

Source: Canonne, Kamath and Steinke (2020) for (1): rho is in proportion to the squared L2 change.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import reduce
from typing import Annotated

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.values import DecimalText
from dppca.common.kernel.privacy.accounting import epsilon_from_rho
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.schema.units import NeighbourRelation, Person
from dppca.common.kernel.study import Study, Trust

_EXACT = Context(prec=120)  # a study's decimals have 30 digits, from 1e-30 to 1e30
_NO_OVERLAP = (
    "No person has rows at two owners: the figures are the largest of the owners'. "
    "The sites assert this; no software can check it."
)
_OVERLAP = "People may have rows at several owners: the figures are the sums of the owners'."
_NO_OVERLAP_IN_SUM = (
    "No person has rows at two owners. The sites assert this; no software can check it."
)
_OVERLAP_IN_SUM = (
    "People may have rows at several owners: the figures are for changes at all of them at once."
)
_ROWS_PER_PERSON = (
    "No person has more rows at one owner than max_rows_per_person. "
    "The sites assert this; no software can check it."
)
_ANY_ROWS = (
    "A person may have any number of rows at an owner: together they weigh as {}. Each owner's "
    "column tells people apart; no software can check it."
)
_PUBLIC_PEOPLE = (
    "It is public which owner has rows of a person, and how many people each owner has: membership "
    "at a site is not protected. The number of rows is not public."
)
_REPLACE_PERSON = (
    "Neighbouring tables have the same number of people and differ in all rows of one person, "
    "whose number may differ, too (replace-person)."
)
_PUBLIC = (
    "It is public which owner has rows of a person, and how many rows each owner has: "
    "membership at a site is not protected."
)
_ADDED = (
    "Neighbouring tables differ by one person, all of whose rows one of them lacks: that person is "
    "added or removed."
)
_NOISED = (
    "It is public which owners take part. How many rows or people each of them has is not: the "
    "numbers leave with noise."
)
_COMPUTATIONAL = (
    "The guarantee is computational: it rests on X25519 or ML-KEM-768, on AES-256, HKDF-SHA256 and "
    "ECDSA on P-256."
)
_REPLACE_ONE = (
    "Neighbouring tables have the same number of rows and differ in those of one person "
    "(replace-one)."
)


@dataclass(frozen=True, slots=True)
class ComposedGuarantee:
    """Guarantee to one person, over the releases of all owners."""

    epsilon: Annotated[DecimalText, "epsilon of all releases together"]
    delta: Annotated[DecimalText, "delta of all releases together"]
    assumptions: Annotated[
        tuple[str, ...], "conditions under which it holds; printed with it, always"
    ]


@dataclass(frozen=True, slots=True)
class Round:
    """A study, and the claim of each owner's release or, with ``trust: aggregate``, their sum's."""

    study: Study
    calibration: Calibration


def compose_guarantee(
    study: Study, calibration: Calibration, *, first: Round | None = None
) -> ComposedGuarantee:
    """Return the federation's guarantee, over all owners of the study.

    ``calibration`` is the claim of each owner's release, or of their sum with ``trust: aggregate``;
    ``first`` is the study that it continues, for what is made of both results.
    """
    rounds = [*([] if first is None else [first]), Round(study, calibration)]
    most = Decimal(max(len(group) for group in _groups(study)))
    epsilon, delta = _together(rounds, most)
    described = (
        (
            *_describe_rows(one),
            *describe_trust(one),
        )
        for one in (each.study for each in rounds)
    )
    return ComposedGuarantee(
        epsilon=decimal_text(epsilon),
        delta=decimal_text(delta),
        assumptions=tuple(dict.fromkeys(line for lines in described for line in lines)),
    )


def _describe_rows(study: Study) -> tuple[str, str, str, str]:
    """Return which tables are neighbours, whose rows they differ in, and what is public of rows."""
    people, overlap = isinstance(study.unit, Person), describe_overlap(study)
    counted = study.table.rows_counted
    weight = "one" if counted == 1 else f"up to {counted}"
    most = _ANY_ROWS.format(weight) if people else _ROWS_PER_PERSON
    if study.table.neighbours is NeighbourRelation.ADDED:
        return _ADDED, overlap, most, _NOISED
    if people:
        return _REPLACE_PERSON, overlap, most, _PUBLIC_PEOPLE
    return _REPLACE_ONE, overlap, most, _PUBLIC


def _together(rounds: Sequence[Round], most: Decimal) -> tuple[Decimal, Decimal]:
    """Return epsilon and delta of all rounds for a person with rows at ``most`` owners."""
    trusts = {each.study.trust for each in rounds}
    charges = [each.calibration.charge.rho for each in rounds]
    if len(rounds) > 1 and (not all(charges) or (len(trusts) > 1 and most > 1)):
        apart = [_together([each], most) for each in rounds]
        return _sum(each for each, _ in apart), _sum(each for _, each in apart)
    epsilon, rho = rounds[0].calibration.epsilon, _sum(charges)
    delta = max(each.calibration.delta for each in rounds)
    if len(rounds) > 1:
        epsilon = epsilon_from_rho(rho, delta)
    if Trust.OWNER in trusts:
        return _EXACT.multiply(epsilon, most), _EXACT.multiply(delta, most)
    if most == 1:
        return epsilon, delta
    if rho == 0:
        return _EXACT.multiply(epsilon, most), delta
    return epsilon_from_rho(_EXACT.multiply(rho, most * most), delta), delta


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    """Return the sum of amounts."""
    return reduce(_EXACT.add, amounts, Decimal(0))


def describe_trust(study: Study) -> tuple[str, ...]:
    """Return further assumptions of a sum of masked contributions; none for ``trust: owner``."""
    colluders, honest = study.privacy.colluders, study.n_honest_owners
    if colluders is None or honest is None:
        return ()
    others = "any other owner" if colluders == 1 else f"any {colluders} other owners"
    return (
        f"The figures hold against the curator together with {others}, as long as {honest} owners "
        "of those that were added up, the person's own among them, run this software as it is.",
        "The owners that the study names are different institutions, and each key is its owner's. "
        "Their stewards compared the study's digest among themselves; no software can check it.",
        _COMPUTATIONAL,
    )


def _groups(study: Study) -> list[tuple[str, ...]]:
    """Return groups of owners whose losses add up: declared ones, and every other owner alone."""
    if study.overlap is True:
        return [study.owners]
    declared = () if study.overlap is False else study.overlap
    grouped = {owner for group in declared for owner in group}
    return [*declared, *((owner,) for owner in study.owners if owner not in grouped)]


def describe_overlap(study: Study) -> str:
    """Return the study's statement about people with rows at several owners."""
    in_sum = study.trust is Trust.AGGREGATE
    if study.overlap is True:
        return _OVERLAP_IN_SUM if in_sum else _OVERLAP
    if study.overlap is False:
        return _NO_OVERLAP_IN_SUM if in_sum else _NO_OVERLAP
    figures = (
        "for changes at all owners of the largest group"
        if in_sum
        else "the largest of the groups' sums and the other owners'"
    )
    groups = "; ".join(" + ".join(group) for group in study.overlap)
    return (
        f"People may have rows at all owners of one group ({groups}): the "
        f"figures are {figures}. No person has rows at two owners otherwise. The sites assert "
        "this; no software can check it."
    )
