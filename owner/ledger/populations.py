"""Populations: the people whose rows a release is computed from, and their lifetime budgets. Pure.

A lifetime budget belongs to people. A policy states *populations*, each with a budget, and every
data set draws on one. The ledger cannot see people. It sees names and places, and each charge
states

* the population,
* the data set,
* the source: the SHA-256 of the rows' location (a path, a database), never of their content.

Rules
-----
1. *Names and sources that were charged together, or are stated together, stand for the same people,
   for good.* A charge ties its population, its data set and its source to each other. So does a
   population in the policy: its name, its former names (``was``), its data sets, and their
   locations. Ties are transitive.
2. A charge counts for every population that it is tied to. So a data set that gets another name or
   another population takes its charges with it and also leaves them with the old one, and a source
   keeps its charges under every name.
3. The budget of every population in the policy that a charge counts for must cover the charge.
4. If a charge in the ledger is tied to no population in the policy, nothing more is charged at all
   until the policy says whose it is: a population that was charged cannot be left out.

5. A charge is priced under the promise of each population that it counts for, and nothing is
   charged where a price is infinite (`dppca.common.kernel.privacy.promises`).

It follows that the charges of one source under one address never exceed the budget of the
population that draws on it, however the names have changed.

Limits: ties are never undone, so a name that is used again for other people counts their charges
together. A source that moves to another place while its data set and its population get other names
looks new; rule 4 asks about the old one, and the policy may then answer wrongly. Two addresses of
one database, a copy of a file, a hard link in a folder, and a pattern of files that was charged
before under other names look like another source. A data set that was never charged is tied only
while the policy states it. Raising a budget is the steward's decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from dppca.common.kernel.privacy.accounting import Budget, PrivacyCost
from dppca.common.kernel.privacy.promises import Promise

_SOURCE = "source "  # no name has a space


@dataclass(frozen=True, slots=True)
class Population:
    """A group of people, and the limit on the total cost of all releases computed from their rows.

    Attributes
    ----------
    name
        Its name in the policy.
    who
        Description of the people in one line; empty where it was read from the ledger.
    formerly
        Names of populations and data sets under which these people were charged before.
    data_sets
        Names of the data sets that draw on it now.
    sources
        SHA-256, hexadecimal, of the locations of their rows: addresses, and files there.
    folders
        Digests of the folders that hold these; an earlier charge may have been for a whole folder.
    promise
        What its budget promises a person.
    counts_people
        True if it states ``unit: person``: each data set must have the column that tells people
        apart, so that the rows of each are counted. Of entries always False.
    """

    name: str
    budget: Budget
    who: str = ""
    formerly: tuple[str, ...] = ()
    data_sets: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    promise: Promise = Promise.ROWS_REPLACED
    counts_people: bool = field(default=False, compare=False)

    @property
    def stated_promise(self) -> str:
        """The promise as an entry has it; empty for the weakest one."""
        return "" if self.promise is Promise.ROWS_REPLACED else self.promise.value

    def identifiers(self, charged: frozenset[str]) -> frozenset[str]:
        """Names and sources that this statement ties together, given the ``charged`` sources."""
        sources = self.sources | (self.folders & charged)
        return identifiers(self.name, *self.formerly, *self.data_sets, sources=sources)


@dataclass(frozen=True, slots=True)
class Account:
    """Data set, population and source that a release is charged to.

    The data set draws on ``population``; ``source`` is the SHA-256, hexadecimal, of the rows'
    location; ``others`` are all other populations of the policy, and ``key`` is the column that
    tells people apart, empty without one. The ledger keeps neither with the account.
    """

    data_set: str
    population: Population
    source: str = ""
    others: tuple[Population, ...] = field(default=(), compare=False)
    key: str = field(default="", compare=False)

    @property
    def identifiers(self) -> frozenset[str]:
        """Names and sources that a charge to it ties together."""
        return identifiers(
            self.population.name, self.data_set, sources=[self.source] if self.source else []
        )

    def has_rows_of(self, other: Account) -> bool:
        """Return True if both read the same source, under any names."""
        return self.source != "" and self.source == other.source

    @property
    def populations(self) -> tuple[Population, ...]:
        """All populations of the policy; the one that is charged comes first."""
        return (self.population, *self.others)


def identifiers(*names: str, sources: Iterable[str] = ()) -> frozenset[str]:
    """Names and sources as one set, in which no source can be taken for a name."""
    return frozenset((*names, *(_SOURCE + each for each in sources)))


def transitive_links(start: frozenset[str], known: Iterable[frozenset[str]]) -> frozenset[str]:
    """All names and sources tied to any of ``start``, in any number of steps."""
    tied, waiting = start, list(known)
    while True:
        apart = [each for each in waiting if tied.isdisjoint(each)]
        if len(apart) == len(waiting):
            return tied
        tied = tied.union(*(each for each in waiting if not tied.isdisjoint(each)))
        waiting = apart


def spent(budget: Budget, total: PrivacyCost) -> Decimal | None:
    """Epsilon of a total at the budget's delta; None if there is none (rho at delta 0)."""
    return None if _has_no_epsilon(budget, total) else budget.spent(total)


def remaining(budget: Budget, total: PrivacyCost) -> Decimal | None:
    """Epsilon left for pure releases; None if the total has no epsilon (rho at delta 0)."""
    return None if _has_no_epsilon(budget, total) else budget.remaining(total)


def admits_total(budget: Budget, total: PrivacyCost) -> bool:
    """Return True if a budget covers a total; it covers none that has no finite epsilon."""
    return not _has_no_epsilon(budget, total) and budget.admits(total)


def _has_no_epsilon(budget: Budget, total: PrivacyCost) -> bool:
    return total.rho > 0 and budget.delta == 0
