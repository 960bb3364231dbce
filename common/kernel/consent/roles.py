"""A site's signed roles: whose keys may sign for it, and how many people must. Pure.

Rules
-----
1. A document has 2 to 20 people, each with 1 to 5 keys. ``needed`` of them must sign; if
   ``one_of_each`` names groups, one person of each of these must be among them.
2. No point stands in it twice, whoever it is written for: one key is one person.
3. The first version is signed by every key in it. A later one names the digest of the version
   before, and is signed by as many people as the *old* one asks for, by as many as the *new* one
   asks for, and by every key that is new. To ask for fewer people is a version like any other.
4. Until ``review_by``, at most 400 days away, statements are made under it; after that day roles
   alone can be proposed.

People are counted by the points of their keys, as a number from 0: a name is nowhere in it.

Limits: whether two keys are two humans, only humans can check.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from dppca.common.kernel.consent.openssh import MAX_KEY, read_line
from dppca.common.kernel.consent.signed_people import MOST_PEOPLE
from dppca.common.kernel.documents.names import check_visible, is_party_name
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import SettingError

FIRST = "0" * 64
"""Stands in the first version for the digest of the version before it."""
MOST_DAYS = 400  # until a review: a year, and time to come together
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Group = Annotated[str, Field(min_length=1, max_length=64)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Signatory(_Form):
    """Keys of one person, each a line of OpenSSH without comment, and the group."""

    keys: Annotated[tuple[Annotated[str, Field(max_length=MAX_KEY)], ...], Field(min_length=1)]
    group: _Group


class RolesDocument(_Form):
    """The form of roles; `read_roles` reads it from its one canonical form."""

    owner: str
    version: Annotated[StrictInt, Field(ge=1, le=10_000)]
    previous: _Digest
    needed: Annotated[StrictInt, Field(ge=1)]
    people: Annotated[tuple[Signatory, ...], Field(min_length=2, max_length=MOST_PEOPLE)]
    one_of_each: Annotated[tuple[_Group, ...], Field(max_length=20)]
    review_by: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    form: Literal[1]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not is_party_name(self.owner):
            raise ValueError("owner is no name of a site")
        if (self.version == 1) is not (self.previous == FIRST):
            raise ValueError("previous does not fit version")
        if self.needed > len(self.people):
            raise ValueError(f"needed is {self.needed}, and there are {len(self.people)} people")
        date.fromisoformat(self.review_by)
        lines = [line for person in self.people for line in person.keys]
        if any(len(person.keys) > 5 for person in self.people):
            raise ValueError("a person has at most 5 keys")
        keys = [read_line(line) for line in lines]
        if [key.line for key in keys] != lines:
            raise ValueError("a key has a comment, or more than one blank")
        if len({key.point for key in keys}) != len(keys):
            raise ValueError("one key stands there twice, which is one person")
        groups = {check_visible(person.group) for person in self.people}
        if len(set(self.one_of_each)) != len(self.one_of_each) or set(self.one_of_each) - groups:
            raise ValueError("one_of_each names a group twice, or one of which nobody is")
        return self


@dataclass(frozen=True)
class Roles:
    """Roles that were read.

    ``sha256`` is the digest of the canonical form, hexadecimal.
    """

    document: RolesDocument

    @cached_property
    def content(self) -> bytes:
        """Canonical form."""
        return canonical_json(self.document.model_dump(mode="json"))

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the canonical form, hexadecimal."""
        return sha256(self.content).hexdigest()

    @cached_property
    def people(self) -> dict[bytes, int]:
        """Number of the person to whom each point belongs, from 0."""
        lists = enumerate(person.keys for person in self.document.people)
        return {read_line(line).point: number for number, keys in lists for line in keys}

    def signed_by(self, points: Collection[bytes]) -> frozenset[int]:
        """Numbers of the people whose keys are among these points."""
        return frozenset(self.people[point] for point in points if point in self.people)

    def is_enough(self, points: Collection[bytes]) -> bool:
        """Return True if the people of these points may decide."""
        people = self.signed_by(points)
        groups = {self.document.people[number].group for number in people}
        return len(people) >= self.document.needed and groups.issuperset(self.document.one_of_each)

    def is_reviewed(self, today: date) -> bool:
        """Return True until the day of the next review has passed."""
        return today <= date.fromisoformat(self.document.review_by)


def read_roles(content: bytes) -> Roles:
    """Read roles from their canonical form; raise `SettingError` for anything else."""
    try:
        roles = Roles(RolesDocument.model_validate_json(content))
        canonical = roles.content == content
    except (ValidationError, SettingError, ValueError, RecursionError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SettingError(f"these are no roles: {said}") from error
    if not canonical:
        raise SettingError("these are no roles: they are not in the one canonical form")
    return roles


def require_successor(before: Roles | None, after: Roles) -> None:
    """Raise `SettingError` unless roles may follow others, or be the first."""
    version, previous = (0, FIRST) if before is None else (before.document.version, before.sha256)
    if before is not None and before.document.owner != after.document.owner:
        raise SettingError("these are the roles of another site")
    if (after.document.version, after.document.previous) != (version + 1, previous):
        raise SettingError(f"the next roles have version {version + 1} and previous {previous}")


def require_review_day(roles: Roles, today: date) -> None:
    """Raise `SettingError` unless the next review is from tomorrow on, at most 400 days away."""
    day = date.fromisoformat(roles.document.review_by)
    if not today < day <= today + timedelta(days=MOST_DAYS):
        raise SettingError(f"review_by is a day from tomorrow on, at most {MOST_DAYS} days away")


def is_agreed(before: Roles | None, after: Roles, points: Collection[bytes]) -> bool:
    """Return True if enough people and keys have signed a new version; see rule 3."""
    known = frozenset() if before is None else before.people.keys()
    proved = (after.people.keys() - known) <= set(points)
    old = True if before is None else before.is_enough(points)
    return old and proved and after.is_enough(points)
