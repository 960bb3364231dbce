"""Values that both sides speak of: states of a study, forms of synthetic rows, upload headers.

Plain values without a trace of how they travel, so that pure decisions can be taken on them.
`dppca.common.transport.codec` turns messages into these and back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

RELEASE_ID_BYTES = 16
"""Length of the random name that a release keeps on every resend."""
METADATA_KEY = b"dppca"
"""Where a table of this software carries its label and receipt, as JSON."""


def accounts_for(releases: Iterable[bytes]) -> bytes:
    """SHA-256 of releases' identifiers, ascending: who can say it knows every one of them."""
    return hashlib.sha256(b"".join(sorted(releases))).digest()


class StudyState(StrEnum):
    """Where a study stands."""

    OPEN = "open"
    SEALED = "sealed"
    DECOMPOSED = "decomposed"
    CLOSED = "closed"
    ABORTED = "aborted"


class Form(StrEnum):
    """The two forms of synthetic rows."""

    CODED = "coded"
    DECODED = "decoded"


@dataclass(frozen=True, slots=True)
class Header:
    """What an owner says of its release before the first byte of it. Digests are raw bytes.

    ``signature`` (DER) is the owner's over the receipt; ``certificate`` (PEM) is that of the call
    it came by and not said by anybody.
    """

    study_digest: bytes
    release_id: bytes
    n_rows: int
    n_entries: int
    total_bytes: int
    sha256: bytes
    ledger_length: int
    ledger_head: bytes
    receipt: bytes
    signature: bytes = b""
    certificate: bytes = b""
