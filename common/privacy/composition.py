"""What the releases of several owners together promise to one person.

Each release is differentially private in its owner's rows. If a person has rows at one owner only,
what the person loses is what that owner's release loses: over all people, the largest epsilon and,
separately, the largest delta. Where the sites declare that people may have rows at several owners,
a person of such a group loses at most the sum over the group (basic composition; Dwork, Kenthapadi,
McSherry, Mironov and Naor 2006), and the figure is the largest sum over the groups, an owner in no
group being a group of its own. ``overlap: true`` makes one group of all owners.

All owners of the study are counted, also those that are said to have taken no part. A curator
could pool an owner's release and leave its name out, and nobody who holds the result can check an
absence. All releases of a study make the same claim, so a group's sum is that claim times its size.

Limits: which people overlap is the sites' assertion.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

from dppca.common.amounts import decimal_text
from dppca.common.study import Study

_EXACT = Context(prec=120)  # a study's decimals have 30 digits, from 1e-30 to 1e30
_NO_OVERLAP = (
    "No person has rows at two owners: the figures are the largest of the owners'. "
    "The sites assert this; no software can check it."
)
_OVERLAP = "People may have rows at several owners: the figures are the sums of the owners'."
_ROWS_PER_PERSON = (
    "No person has more rows at one owner than max_rows_per_person. "
    "The sites assert this; no software can check it."
)
_PUBLIC = (
    "Which owner holds a person, and how many rows each owner has, are public: "
    "membership at a site is not protected."
)
_REPLACE_ONE = (
    "Neighbouring tables have the same number of rows and differ in those of one person "
    "(replace-one)."
)


@dataclass(frozen=True, slots=True)
class ComposedGuarantee:
    """What the releases together promise to one person. Decimals as text.

    Attributes
    ----------
    assumptions
        Sentences to print with the figures, always.
    """

    epsilon: str
    delta: str
    assumptions: tuple[str, ...]


def compose_guarantee(
    study: Study, *, epsilon: Decimal, delta: Decimal, owners: Collection[str] | None = None
) -> ComposedGuarantee:
    """The federation's guarantee.

    Parameters
    ----------
    epsilon, delta
        What each owner's release claims, the same for all.
    owners
        Whose releases are counted: all of the study, except to read what earlier versions wrote.
    """
    counted = frozenset(study.owners if owners is None else owners)
    most = Decimal(max(len(group) for group in group_owners(study, counted)))
    return ComposedGuarantee(
        epsilon=decimal_text(_EXACT.multiply(epsilon, most)),
        delta=decimal_text(_EXACT.multiply(delta, most)),
        assumptions=(_REPLACE_ONE, describe_overlap(study), _ROWS_PER_PERSON, _PUBLIC),
    )


def group_owners(study: Study, owners: Collection[str]) -> list[tuple[str, ...]]:
    """Which owners' losses add up: declared groups, and every other owner on its own."""
    if study.overlap is True:
        return [tuple(sorted(owners))]
    declared = () if study.overlap is False else study.overlap
    groups = [tuple(owner for owner in group if owner in owners) for group in declared]
    grouped = {owner for group in groups for owner in group}
    alone = [(owner,) for owner in sorted(owners) if owner not in grouped]
    return [*(group for group in groups if group), *alone]


def describe_overlap(study: Study) -> str:
    """What the study says of people with rows at several owners."""
    if study.overlap is True:
        return _OVERLAP
    if study.overlap is False:
        return _NO_OVERLAP
    return (
        f"People may have rows at all owners of one group ({_groups_text(study.overlap)}): the "
        "figures are the largest of the groups' sums and the other owners'. No person has rows at "
        "two owners otherwise. The sites assert this; no software can check it."
    )


def _groups_text(groups: Sequence[Sequence[str]]) -> str:
    return "; ".join(" + ".join(group) for group in groups)
