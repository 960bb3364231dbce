"""Values that both sides speak of: states of a study, forms of synthetic rows.

Plain values without a trace of how they travel, so that pure decisions can be taken on them.
`dppca.common.transport.codec` turns messages into these and back.
"""

import hashlib
from collections.abc import Iterable
from enum import StrEnum

RELEASE_ID_BYTES = 16
"""Length of the random name that a release keeps on every resend."""
METADATA_KEY = b"dppca"
"""Metadata key under which a table carries its label and receipt, as JSON."""


def accounts_for(releases: Iterable[bytes]) -> bytes:
    """SHA-256 of releases' identifiers, ascending: who can say it knows every one of them."""
    return hashlib.sha256(b"".join(sorted(releases))).digest()


class StudyState(StrEnum):
    """State of a study."""

    OPEN = "open"
    SEALED = "sealed"
    DECOMPOSED = "decomposed"
    CLOSED = "closed"
    ABORTED = "aborted"


class Form(StrEnum):
    """The two forms of synthetic rows."""

    CODED = "coded"
    DECODED = "decoded"
