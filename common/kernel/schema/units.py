"""Privacy unit: what of the rows belongs to one person, and which tables a promise compares.

`LimitedRows` says that a person has at most k rows, each of weight 1. `Person` says that all rows
of a person together weigh as one, however many there are. Code that needs a number of rows has to
say what it does for people: a `Person` has none.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated


class Unit(StrEnum):
    """What a study counts."""

    ROW = "row"
    PERSON = "person"


class NeighbourRelation(StrEnum):
    """Tables that the promise to a person compares."""

    REPLACED = "replaced"
    """Equally many rows, those of one person with other values: the number of rows is public."""
    ADDED = "added"
    """One has the rows of one more person: the number of rows is secret."""


@dataclass(frozen=True, slots=True)
class LimitedRows:
    """A person has at most ``most`` rows; the sites assert it."""

    most: Annotated[int, "k, at least 1"]

    @property
    def counts(self) -> str:
        """What the number in a release counts."""
        return "rows"

    @property
    def weight(self) -> int:
        """Largest weight of one person."""
        return self.most

    @property
    def factor(self) -> int:
        """What the sensitivity to one row is multiplied by."""
        return self.most

    @property
    def text(self) -> str:
        """How many rows a person may have."""
        return str(self.most)


@dataclass(frozen=True, slots=True)
class Person:
    """A person has any number k of rows, which together weigh as ``min(k, rows_counted)``."""

    rows_counted: Annotated[int, "c, at least 1"] = 1

    @property
    def counts(self) -> str:
        """What the number in a release counts."""
        return "people" if self.rows_counted == 1 else "weighted rows"

    @property
    def weight(self) -> int:
        """Largest weight of one person."""
        return self.rows_counted

    @property
    def factor(self) -> int:
        """What the sensitivity to one person is multiplied by; c is in it already."""
        return 1

    @property
    def text(self) -> str:
        """How many rows a person may have."""
        c = self.rows_counted
        return f"any number; together they weigh as {'one row' if c == 1 else f'up to {c} rows'}"


PrivacyUnit = LimitedRows | Person
