"""What a study that pins this site's people gets of the ledger: their signatures. Pure.

A receipt holds all that a verifier needs, and nothing more: the roles from the pinned ones to those
under which the release was signed, and one signature of each person. Once a statement is used its
signatures stay, so a release that is sent again has the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.errors import StudyError

if TYPE_CHECKING:
    from dppca.common.kernel.consent.pins import Signed
    from dppca.common.kernel.consent.roles import Roles
    from dppca.common.kernel.study import PinnedRoles, Study
    from dppca.owner.ledger.approvals import Approvals, ProposalRecord


def require_pinned(approvals: Approvals, study: Study, owner: str) -> None:
    """Raise `StudyError` unless this site can sign what a study asks of its people."""
    pin, roles = (study.signatories or {}).get(owner), approvals.in_force
    if pin is None:
        return
    asked = f"study {study.name} asks that {pin.needed} people of {owner} sign"
    if roles is None:
        raise StudyError(f"{asked}, and this site has no roles: see `dppca-owner roles propose`")
    if not any(each.sha256 == pin.roles for each in approvals.roles):
        raise StudyError(
            f"{asked}, of other roles than this site has had: tell its operator the ones that "
            "`dppca-owner proposals` prints"
        )
    if roles.document.needed < pin.needed:
        raise StudyError(f"{asked}; the roles here ask for {roles.document.needed}")
    _chain(approvals, pin, roles)


def require_seen(approvals: Approvals, study: Study, owner: str, seen: int) -> None:
    """Raise `StudyError` for what a curator refuses that has ``seen`` roles of this version (or 0).

    That is a study that pins nobody here, and older roles here; it is said before a charge.
    """
    version = 0 if approvals.in_force is None else approvals.in_force.document.version
    settle = "`dppca-curator owner settle`. Nothing was drawn or charged by this command"
    if seen and owner not in (study.signatories or {}):
        raise StudyError(
            f"study {study.name} pins nobody of {owner}, whose people its curator saw sign: it "
            "takes no contribution to it. Ask the operator for one that pins them, or, if nobody "
            f"signs here any more, for {settle}"
        )
    if version < seen:
        raise StudyError(
            f"the curator has seen roles of {owner} of version {seen}; the newest here are of "
            f"version {version}. If that is right, ask the operator for {settle}"
        )


def find_consent_of(
    approvals: Approvals, study: Study, owner: str, consent: str
) -> dict[str, Any] | None:
    """Return what a receipt holds of a statement that was used, by its digest; None without a pin.

    Raise `StudyError` if it was entered before the site had roles, or under others.
    """
    pin, record = (study.signatories or {}).get(owner), approvals.records.get(consent)
    if pin is None:
        return None
    if record is None:
        raise StudyError(
            f"study {study.name} asks for signatures of people of {owner}, and nobody has signed "
            "this, which is from before its roles: the curator would refuse it"
        )
    under = next(
        each for each in approvals.roles if each.sha256 == record.statement.terms.roles_sha256
    )
    from dppca.common.kernel.consent.pins import Signed  # few studies pin anybody

    people = dict[int, bytes]()
    for point, signature in record.signatures.items():
        people.setdefault(under.people[point], signature)
    release = Signed(record.statement.content, tuple(people.values()))
    return {"approval": release.document, "roles": _chain(approvals, pin, under)}


def _chain(approvals: Approvals, pin: PinnedRoles, last: Roles) -> list[dict[str, Any]]:
    """Return the roles from the pinned to the last ones."""
    from dppca.common.kernel.consent.pins import Signed, write_chain

    by_digest = {each.sha256: place for place, each in enumerate(approvals.roles)}
    if pin.roles not in by_digest or by_digest[pin.roles] > by_digest[last.sha256]:
        raise StudyError("the roles that the study pins are later than those that signed")
    versions = approvals.roles[by_digest[pin.roles] : by_digest[last.sha256] + 1]
    agreed = {
        each.statement.terms.content_digest: each
        for each in approvals.records.values()
        if each.is_in_force and each.statement.terms.kind is StatementKind.ROLES
    }

    def signed(record: ProposalRecord) -> Signed:
        return Signed(record.statement.content, tuple(record.signatures.values()))

    return write_chain(versions[0], [(each, signed(agreed[each.sha256])) for each in versions[1:]])
