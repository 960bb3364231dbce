"""A *pin*: what a study asks of a site's people, and the signatures that meet it. Pure.

A study names the digest of a site's roles, and how many people must sign. An owner's signed receipt
then holds the people's signatures, and every version of the roles from the pinned one to the one
that they signed under. Who has the site's account, and other software there, has not their keys.

Rules, in the order in which they are applied
---------------------------------------------
1. All is in its one form, and has at most `MAX_CONSENT` bytes.
2. The first roles have the pinned digest. Each later version follows the one before, in a statement
   that enough people of both, and every new key, signed.
3. The statement is of this site, kind, study, release, noise and price, under the last roles given.
4. All who signed it are different people of these roles. They are enough by the roles, and as many
   as the study asks for.

Limits: nothing here shows that the last roles given are the newest: people whom newer ones leave
out count until a study pins those. Whether a statement had expired, only the site knows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dppca.common.kernel.consent.roles import Roles, is_agreed, read_roles, require_successor
from dppca.common.kernel.consent.signed_people import MAX_CHAIN, MAX_CONSENT, SignedByPeople
from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.consent.statements import (
    SignableStatement,
    find_signer,
    read_approval,
    write_approval,
)
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import DppcaError, SignatureError, StudyError

_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Signed:
    """A statement, and signatures over it."""

    statement: bytes
    signatures: tuple[bytes, ...]

    @property
    def document(self) -> dict[str, Any]:
        """The envelope as JSON has it, its signatures in one order."""
        found = read_approval(write_approval(self.statement, self.signatures))
        ordered = sorted(self.signatures, key=lambda each: find_signer(found[0], each).point)
        envelope: dict[str, Any] = json.loads(write_approval(self.statement, ordered))
        return envelope


def write_chain(pinned: Roles, later: Sequence[tuple[Roles, Signed]]) -> list[dict[str, Any]]:
    """Return the roles from the pinned ones on, as a receipt holds them.

    Raise `StudyError` if they are longer than a receipt may have.
    """
    chain = [{"document": json.loads(pinned.content)}]
    chain += [{"document": json.loads(each.content), "approval": by.document} for each, by in later]
    if len(canonical_json(chain)) > MAX_CHAIN:
        raise StudyError(
            "the roles here have changed too often, or have too many keys, since the study pinned "
            "them: ask for a study that pins the ones in force"
        )
    return chain


def require_consent(
    consent: object,
    *,
    owner: str,
    roles_sha256: str,
    needed: int,
    terms: Mapping[str, object],
    beforehand: Mapping[str, object] | None = None,
) -> SignedByPeople:
    """Check what a receipt holds against a pin; return who has signed.

    ``terms`` are those of `StatementTerms` that follow from the receipt; ``beforehand`` those of a
    contribution whose statement allows this opening, too. Raise `SignatureError` naming the owner,
    and what is missing.
    """
    if consent is None:
        raise SignatureError(
            f"what {owner} sent lacks signatures of people there: the study asks for {needed}"
        )
    try:
        roles, statement, points = _read(consent, owner, roles_sha256)
    except (DppcaError, *_DAMAGED) as error:
        why = f": {error}" if isinstance(error, DppcaError) else ""
        raise SignatureError(
            f"what people at {owner} have signed is damaged, or not by the roles that the study "
            f"pins{why}"
        ) from error
    stated, also = statement.terms.model_dump(), statement.terms.also
    if beforehand is not None and also is not None and also.opening:
        terms = beforehand
    asked: dict[str, object] = {**terms, "owner": owner, "roles_sha256": roles.sha256}
    wrong = sorted(key for key, value in asked.items() if stated[key] != value)
    if wrong:
        raise SignatureError(
            f"people at {owner} have signed something else than this release: {', '.join(wrong)}"
        )
    people = roles.signed_by(points)
    if len(people) < len(points):
        raise SignatureError(f"a key that signed for {owner} is of nobody there, or of one twice")
    if len(people) < needed or not roles.is_enough(points):
        raise SignatureError(
            f"{len(people)} of {len(roles.document.people)} people at {owner} have signed this "
            f"release; the study asks for {needed}, and for as many as the roles do"
        )
    return SignedByPeople(owner, len(people), len(roles.document.people), roles.document.version)


def _read(
    consent: Any, owner: str, roles_sha256: str
) -> tuple[Roles, SignableStatement, list[bytes]]:
    """Apply rules 1 and 2; return the last roles, the release's statement and who signed it."""
    if len(canonical_json(consent)) > MAX_CONSENT or consent.keys() != {"approval", "roles"}:
        raise ValueError("too long, or with other keys")
    first, *later = consent["roles"]
    if first.keys() != {"document"}:
        raise ValueError("other keys")
    roles = read_roles(canonical_json(first["document"]))
    if roles.sha256 != roles_sha256 or roles.document.owner != owner:
        raise SignatureError("the first roles are others")
    for each in later:
        if each.keys() != {"document", "approval"}:
            raise ValueError("other keys")
        following = read_roles(canonical_json(each["document"]))
        require_successor(roles, following)
        statement, points = _signers(each["approval"])
        terms = statement.terms
        named = (terms.kind, terms.owner, terms.roles_sha256, terms.content_digest)
        if named != (StatementKind.ROLES, owner, roles.sha256, following.sha256):
            raise SignatureError("a version of the roles was signed as something else")
        if not is_agreed(roles, following, points):
            raise SignatureError("too few people have signed a version of the roles")
        roles = following
    return roles, *_signers(consent["approval"])


def _signers(envelope: object) -> tuple[SignableStatement, list[bytes]]:
    statement, signatures = read_approval(canonical_json(envelope))
    points = [find_signer(statement, each).point for each in signatures]
    if write_approval(statement.content, signatures) != canonical_json(envelope):
        raise ValueError("another form")
    if points != sorted(set(points)):
        raise SignatureError("a key has signed twice, or signatures are in another order")
    return statement, points
