"""Whose rows a release is computed from, and what may be spent on them. Pure.

A lifetime budget belongs to people. A policy states *populations*, each with a budget, and every
data set draws on one. The ledger cannot see people; it sees names and places, and it is told of
each charge

* the population,
* the data set,
* the source: the SHA-256 of where the rows lie (a path, a database), never of what they hold.

Rules
-----
1. *Whatever was charged together, or is stated together, is of the same people, for good.* A charge
   ties its population, its data set and its source to each other. So does a population in the
   policy: its name, the names that it had (``was``), its data sets, and where they lie. What is
   tied in steps is tied.
2. A charge counts for every population that it is tied to. So a data set that gets another name or
   another population takes its charges with it and leaves them where they were too, and a source
   has its charges whatever it is called.
3. A charge has to be covered by the budget of every population in the policy that it counts for.
4. Where a charge in the ledger is tied to no population in the policy, nothing more is charged at
   all until the policy says whose it is: a population that was charged cannot be left out.

It follows that what is charged to one source under one address never exceeds the budget of the
population that draws on it, whatever became of all names.

Limits: ties are never undone, so a name that is used again for other people counts their charges
together. A source that moves to another place while its data set and its population get other names
looks new; rule 4 asks about the old one, and the policy may then answer wrongly. Two addresses of
one database, a copy of a file, a hard link in a folder, and a pattern of files that was charged
before under other names look like another source. A data set that was never charged is tied only
while the policy states it. Raising a budget is the steward's to decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from dppca.common.privacy.accounting import Budget, PrivacyCost

_SOURCE = "source "  # no name has a space


@dataclass(frozen=True, slots=True)
class Population:
    """People, and the most that all releases computed from their rows may cost.

    Attributes
    ----------
    name
        A data set's name, where the policy gives the data set a budget of its own.
    who
        The people, in one line of text; empty where the policy does not say it.
    was
        Names of populations and data sets under which these people were charged before.
    data_sets
        Names of those that draw on it now.
    sources
        SHA-256, hexadecimal, of the places where their rows lie: addresses, and files there.
    folders
        Digests of the folders that hold these; an earlier charge may have been for all of one.
    """

    name: str
    budget: Budget
    who: str = ""
    was: tuple[str, ...] = ()
    data_sets: tuple[str, ...] = ()
    sources: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    def ties(self, charged: frozenset[str]) -> frozenset[str]:
        """All that this statement ties together, where these sources have been charged."""
        sources = self.sources | (self.folders & charged)
        return tie(self.name, *self.was, *self.data_sets, sources=sources)


@dataclass(frozen=True, slots=True)
class Account:
    """What a release is charged to.

    Attributes
    ----------
    data_set
        Its rows'.
    population
        That the data set draws on.
    source
        SHA-256, hexadecimal, of where the rows lie.
    others
        All other populations of the policy. The ledger does not keep them.
    """

    data_set: str
    population: Population
    source: str = ""
    others: tuple[Population, ...] = field(default=(), compare=False)

    @property
    def ties(self) -> frozenset[str]:
        """All that a charge to it ties together."""
        return tie(
            self.population.name, self.data_set, sources=[self.source] if self.source else []
        )

    def has_rows_of(self, other: Account) -> bool:
        """Whether both read one source, by whatever names."""
        return self.source != "" and self.source == other.source

    @property
    def populations(self) -> tuple[Population, ...]:
        """All of the policy, the one that is charged first."""
        return (self.population, *self.others)


def tie(*names: str, sources: Iterable[str] = ()) -> frozenset[str]:
    """Names and sources as one set, in which no source is taken for a name."""
    return frozenset((*names, *(_SOURCE + each for each in sources)))


def follow_ties(start: frozenset[str], known: Iterable[frozenset[str]]) -> frozenset[str]:
    """All that is tied to what ``start`` holds, in any number of steps."""
    tied, waiting = start, list(known)
    while True:
        apart = [each for each in waiting if tied.isdisjoint(each)]
        if len(apart) == len(waiting):
            return tied
        tied = tied.union(*(each for each in waiting if not tied.isdisjoint(each)))
        waiting = apart


def spent(budget: Budget, total: PrivacyCost) -> Decimal | None:
    """Epsilon of a total at the budget's delta; None where there is none (rho at delta 0)."""
    return None if _has_no_epsilon(budget, total) else budget.spent(total)


def remaining(budget: Budget, total: PrivacyCost) -> Decimal | None:
    """Epsilon left for pure releases; None as in `spent`."""
    return None if _has_no_epsilon(budget, total) else budget.remaining(total)


def admits_total(budget: Budget, total: PrivacyCost) -> bool:
    """Whether a budget covers a total; it covers none that no finite epsilon describes."""
    return not _has_no_epsilon(budget, total) and budget.admits(total)


def _has_no_epsilon(budget: Budget, total: PrivacyCost) -> bool:
    return total.rho > 0 and budget.delta == 0
