"""How many people of a site sign, and how much of that a receipt holds."""

from dataclasses import dataclass
from typing import Annotated

MOST_PEOPLE = 20  # of a site's roles
MAX_CHAIN = 20 << 10  # bytes of canonical JSON; three people and one change of roles take 4,000
MAX_CONSENT = MAX_CHAIN + (16 << 10)  # a statement with 20 signatures has 12,000


@dataclass(frozen=True, slots=True)
class SignedByPeople:
    """People of a site who have signed a release, under roles that the study pins."""

    owner: Annotated[str, "name of the owner"]
    signed: Annotated[int, "people who have signed"]
    people: Annotated[int, "people of the roles"]
    roles_version: Annotated[int, "version of the roles under which they signed"]
