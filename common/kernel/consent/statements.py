"""What people sign: one statement for one release, vote, table of rows, recovery, policy or roles.

The form is that of DSSE 1.0: a person signs the pre-authentication encoding of a Statement of
in-toto, whose ``predicate`` is `StatementTerms`. Its subject is the SHA-256 of the *facts*,
canonical JSON that stays at the site and with the people: they hold 32 fresh random bytes, so a
digest that leaves confirms no guess. The statement may leave the site.

A statement is read from one form only. Who is said to have signed (``keyid``) is never looked at.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from dppca.common.kernel.consent.openssh import MAX_SIGNATURE, PersonKey, find_signing_key
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import SignatureError

if TYPE_CHECKING:
    from dppca.common.kernel.consent.statement_terms import StatementTerms

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:dppca:predicate:consent:1"
SALT_BYTES = 32  # so many that no digest of facts confirms a guess
USUAL_DAYS = 14  # a statement is open: two holidays
MAX_STATEMENT = 1 << 14  # bytes; the longest has 1,500
MAX_FACTS = 1 << 22  # bytes: a policy, whose file has at most 4 MiB, is a part of them
_MOST_SIGNATURES = 100  # of 20 people with 5 keys each
MAX_APPROVAL = 2 * (MAX_STATEMENT + _MOST_SIGNATURES * MAX_SIGNATURE)  # bytes, in base64 and JSON


@dataclass(frozen=True, slots=True)
class SignableStatement:
    """A statement that was read: its bytes, what may leave of it, and the digest of its facts."""

    content: bytes
    terms: StatementTerms
    facts_sha256: str

    @property
    def sha256(self) -> str:
        """SHA-256 of its bytes, hexadecimal, by which the ledger knows it."""
        return sha256(self.content).hexdigest()

    @property
    def expires(self) -> datetime:
        """Time from which on it allows nothing."""
        return datetime.fromisoformat(self.terms.expires)


def write_statement(terms: StatementTerms, facts: bytes) -> bytes:
    """Return the one form of a statement."""
    return _statement_bytes(terms, sha256(facts).hexdigest())


def _statement_bytes(terms: StatementTerms, facts_sha256: str) -> bytes:
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "predicate": terms.model_dump(mode="json"),
            "predicateType": PREDICATE,
            "subject": [{"digest": {"sha256": facts_sha256}, "name": "facts"}],
        }
    )


def read_signable(content: bytes) -> SignableStatement:
    """Read a statement; raise `SignatureError` if it is none, or in another form."""
    try:
        return _parse_statement(content)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SignatureError("this is no statement in the one form that people sign") from error


def _parse_statement(content: bytes) -> SignableStatement:
    if len(content) > MAX_STATEMENT:
        raise ValueError("too long")
    # Here, because every command reads ledgers, and few ledgers have statements.
    from dppca.common.kernel.consent.statement_terms import StatementTerms

    document = json.loads(content)
    terms = StatementTerms.model_validate_json(json.dumps(document["predicate"]))
    digest = document["subject"][0]["digest"]["sha256"]
    if len(bytes.fromhex(digest)) != 32 or bytes.fromhex(digest).hex() != digest:
        raise ValueError("no digest of facts")
    if _statement_bytes(terms, digest) != content:
        raise ValueError("another form")
    return SignableStatement(content, terms, digest)


def read_facts(content: bytes, statement: SignableStatement) -> dict[str, Any]:
    """Read the facts of a statement; raise `SignatureError` unless they are those that it names."""
    if len(content) > MAX_FACTS or sha256(content).hexdigest() != statement.facts_sha256:
        raise SignatureError("the facts beside the statement are not those that it names")
    try:
        facts = json.loads(content)
        sound = isinstance(facts, dict) and canonical_json(facts) == content
        sound = sound and len(bytes.fromhex(facts["salt"])) == SALT_BYTES
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise SignatureError("the facts of a statement are damaged") from error
    if not sound:
        raise SignatureError("the facts of a statement are not in their one form")
    return dict(facts)


def encoded(statement: bytes) -> bytes:
    """Return DSSE's pre-authentication encoding of a statement: the bytes that are signed."""
    parts = (b"DSSEv1", str(len(PAYLOAD_TYPE)).encode(), PAYLOAD_TYPE.encode())
    return b" ".join((*parts, str(len(statement)).encode(), statement))


def find_signer(statement: SignableStatement, signature: bytes) -> PersonKey:
    """Return the key of a signature over a statement; raise `SignatureError` if it is none."""
    return find_signing_key(
        signature, encoded(statement.content), namespace=statement.terms.kind.namespace
    )


def write_approval(statement: bytes, signatures: Iterable[bytes]) -> bytes:
    """Return an envelope of DSSE around a statement."""
    entries = [{"keyid": "", "sig": base64.b64encode(each).decode()} for each in signatures]
    payload = base64.b64encode(statement).decode()
    return canonical_json({"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": entries})


def read_approval(content: bytes) -> tuple[SignableStatement, tuple[bytes, ...]]:
    """Read an envelope; its signatures are not checked here. Raise `SignatureError` for no such."""
    try:
        payload, found = _parse_approval(content)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise SignatureError("this is no envelope with people's signatures") from error
    return read_signable(payload), found


def _parse_approval(content: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    if len(content) > MAX_APPROVAL:
        raise ValueError("too long")
    document = json.loads(content)
    if set(document) != {"payload", "payloadType", "signatures"}:
        raise ValueError("other keys")
    if document["payloadType"] != PAYLOAD_TYPE:
        raise ValueError("another type")
    entries = document["signatures"]
    if not isinstance(entries, list) or not 0 < len(entries) <= _MOST_SIGNATURES:
        raise ValueError("no list of signatures")
    if any(set(each) - {"keyid", "sig"} for each in entries):
        raise ValueError("other keys")
    signatures = tuple(base64.b64decode(each["sig"], validate=True) for each in entries)
    return base64.b64decode(document["payload"], validate=True), signatures
