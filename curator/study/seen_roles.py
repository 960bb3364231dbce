"""What a curator remembers of the people who sign at a site: pure decisions.

A curator keeps the newest roles under which people of an owner signed a contribution, a vote or an
opening, over all studies, until an operator settles. From then on it takes nothing of this owner
that has fewer signatures: none under older roles, under other ones of the same version, or under a
branch that leaves out the ones it has seen; and nothing for a study that pins nobody there, which
somebody with the site's account, or a second certificate of its name, could sign alone. So a study
that names such an owner has to pin its people. An opening of a set that was sealed without pins is
taken: it needs the opener's key of the study, charges nothing, and others wait for it.

Limits: roles that begin more than one version after those that were seen may be of another branch.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import SignatureError, StudyError
from dppca.common.kernel.study import Study

_SETTLE = "an operator says so by `dppca-curator owner settle`"


@dataclass(frozen=True, slots=True)
class SeenRoles:
    """Roles of a site under which people signed: their version, and their SHA-256 (32 bytes)."""

    version: int
    sha256: bytes

    @classmethod
    def of(cls, consent: object) -> Self | None:
        """Return the last roles of signatures that hold; None without any."""
        if consent is None:
            return None
        last = _chain(consent)[-1]
        return cls(last["version"], hashlib.sha256(canonical_json(last)).digest())


def require_as_seen(owner: str, consent: object, seen: SeenRoles | None) -> None:
    """Raise `SignatureError` if an owner sends less than was seen of it.

    ``consent`` is what people signed, which the study asks for (`require_people`); None if the
    study asks nobody of this owner.
    """
    signed = SeenRoles.of(consent)
    if seen is None or signed == seen:
        return
    if signed is None:
        raise SignatureError(
            f"the study pins nobody at {owner}, and this curator has seen that people sign there: "
            f"make a study that pins them. If nobody signs there any more, {_SETTLE}"
        )
    next_one = next((e for e in _chain(consent) if e["version"] == seen.version + 1), None)
    follows = next_one is None or next_one["previous"] == seen.sha256.hex()
    if signed.version <= seen.version or not follows:
        raise SignatureError(
            f"people at {owner} have signed under roles of version {signed.version}, and this "
            f"curator has seen other ones, of version {seen.version}, which those do not follow: "
            f"if that is right, {_SETTLE}"
        )


def require_pins(study: Study, seen: Mapping[str, SeenRoles | None]) -> None:
    """Raise `StudyError` if a study pins nobody at an owner where people were seen to sign."""
    unpinned = [
        owner
        for owner in study.owners
        if seen.get(owner) is not None and owner not in (study.signatories or {})
    ]
    if unpinned:
        names = ", ".join(unpinned)
        raise StudyError(
            f"people sign for what leaves {names}: pin them under `signatories`, by the line that "
            f"`dppca-owner proposals` prints there. If nobody signs there any more, {_SETTLE}"
        )


def _chain(consent: object) -> list[dict[str, Any]]:
    return [each["document"] for each in cast("Any", consent)["roles"]]
