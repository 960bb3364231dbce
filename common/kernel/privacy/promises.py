"""Promises: which tables a lifetime budget compares, and what each release costs under them. Pure.

A budget is of one promise to a person. By what stays secret, from the least to the most:

    rows replaced      a person is replaced by one with as many rows
    people replaced    a person is replaced by one with any number of rows
    people added       a person is added or taken away, with all rows

Neither amount follows from the other: a release is priced under each promise by its own
sensitivities and its noise. The price is infinite where a number left exactly that the promise
hides: the number of rows of a study by row, the number of people of one by person.

A total is under the promise that the policy states or, where a release has an infinite price under
it, under the strongest that all of them keep. As long as these differ, nothing more is charged: the
policy has to state what is true. A number that left is never secret again. Entries of earlier
versions are studies by row, whose numbers of rows left.

Source: derived for this project; `dppca.common.kernel.privacy.added_rows` has the sensitivities.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dppca.common.kernel.privacy.accounting import NO_COST, PrivacyCost
from dppca.common.kernel.privacy.sensitivity import Relation


class Promise(StrEnum):
    """What a budget promises a person; the weakest first."""

    ROWS_REPLACED = "rows replaced"
    PEOPLE_REPLACED = "people replaced"
    PEOPLE_ADDED = "people added"

    def covers(self, other: Promise) -> bool:
        """Return True if all that the other hides is hidden here."""
        order = list(Promise)
        return order.index(self) >= order.index(other)


_KEPT = {
    Relation.REPLACE_ONE: Promise.ROWS_REPLACED,
    Relation.REPLACE_PERSON: Promise.PEOPLE_REPLACED,
    Relation.ADD_OR_REMOVE_ONE: Promise.PEOPLE_ADDED,
    Relation.ADD_OR_REMOVE_PERSON: Promise.PEOPLE_ADDED,
}


def kept_promise(relation: Relation) -> Promise:
    """Return the strongest promise under which a release has a finite price."""
    return _KEPT[relation]


@dataclass(frozen=True, slots=True)
class Spending:
    """Charges of some releases: their sum ``as_claimed``, and if people or rows are ``replaced``.

    The first is under the promise that a release keeps, which is its own relation; ``kept`` is the
    strongest promise that all of them keep.
    """

    as_claimed: PrivacyCost = NO_COST
    replaced: PrivacyCost = NO_COST
    kept: Promise = Promise.PEOPLE_ADDED

    def __add__(self, other: Spending) -> Spending:
        kept = self.kept if other.kept.covers(self.kept) else other.kept
        return Spending(self.as_claimed + other.as_claimed, self.replaced + other.replaced, kept)

    def under(self, promise: Promise) -> PrivacyCost:
        """Return the sum under a promise that all of them keep."""
        if not self.kept.covers(promise):
            raise AssertionError(promise)  # its price is infinite
        return self.as_claimed if promise is Promise.PEOPLE_ADDED else self.replaced
