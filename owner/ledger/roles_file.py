"""``roles.json``: a copy of the entries that made a site's roles, for a ledger that was lost.

It allows nothing: a ledger that lacks what the file states is refused, and entries that are entered
again from here are verified like any other.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from dppca.common.kernel.consent.roles import FIRST
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.files import write_file
from dppca.common.kernel.errors import LedgerError, SettingError
from dppca.owner.ledger.approvals import Approvals
from dppca.owner.ledger.entries import Approval, Proposal

ROLES = "roles.json"
MAX_BYTES = 1 << 26  # some hundred versions, the first of them with a policy
_KINDS: dict[str, type[Proposal | Approval]] = {"proposed": Proposal, "approved": Approval}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def keep_roles(ledger: Path, approvals: Approvals) -> None:
    """Write the file once there are roles; raise `LedgerError` if it cannot be written."""
    if not approvals.roles:
        return
    entries = [{"kind": _NAMES[type(e)], **asdict(e)} for e in approvals.entries_in_force()]
    path = ledger.with_name(ROLES)
    try:
        write_file(path, canonical_json(entries))
    except OSError as error:
        raise LedgerError(f"cannot write {path}: {error.strerror}") from error


def read_kept_roles(ledger: Path) -> list[Proposal | Approval]:
    """Read the entries; nothing is verified here. Raise `SettingError` if they cannot be read."""
    path = ledger.with_name(ROLES)
    wrong = f"{path} cannot be read: put back a copy of it"
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SettingError(wrong)
        return [
            _KINDS[each["kind"]](**{key: each[key] for key in each if key != "kind"})
            for each in json.loads(content)
        ]
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise SettingError(wrong) from error


def last_kept_roles(ledger: Path) -> str:
    """Return the digest of the newest roles that the file states; zeros without a file."""
    if not ledger.with_name(ROLES).exists():
        return FIRST
    stated = [each for each in read_kept_roles(ledger) if isinstance(each, Proposal)]
    try:
        newest = [canonical_json(json.loads(each.facts)["roles"]) for each in stated]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SettingError(f"{ROLES} is damaged: put back a copy of it") from error
    return sha256(newest[-1]).hexdigest() if newest else FIRST


def missing_roles(
    approvals: Approvals, entries: Sequence[Proposal | Approval]
) -> Iterator[Proposal | Approval]:
    """Yield the entries that a ledger lacks, in order."""
    known = [each.signature for each in approvals.entries if isinstance(each, Approval)]
    for entry in entries:
        if isinstance(entry, Approval):
            there = entry.signature in known
        else:
            there = sha256(entry.statement.encode()).hexdigest() in approvals.records
        if not there:
            yield entry
