"""People of a site, with keys like those of OpenSSH, and a ledger at a site with roles."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dppca.common.kernel.consent.openssh import PersonKey
from dppca.common.kernel.consent.statements import encoded, read_signable, write_approval
from dppca.common.kernel.errors import NotApprovedError
from dppca.owner.ledger.approvals import ProposalRecord
from dppca.owner.ledger.database import Ledger
from dppca.owner.ledger.entries import Evidence
from tests.support.ledgers import NOW

APPLICATION = b"ssh:dppca"
SEEN = Evidence(rows="a" * 64, n_rows=10, place="b" * 64)
POLICY = "version: 1\ndata_sets: {}\npopulations: {}\n"


def field(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def number(value: int) -> bytes:
    return field(value.to_bytes(value.bit_length() // 8 + 1, "big"))


@dataclass(frozen=True, slots=True)
class Someone:
    """A person with one key; ``token`` writes it as a FIDO token does."""

    secret: ec.EllipticCurvePrivateKey
    token: bool = False

    @property
    def key(self) -> PersonKey:
        public = self.secret.public_key()
        content = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return PersonKey(content[1:], APPLICATION if self.token else None)

    def sign(
        self,
        message: bytes,
        namespace: str = "consent@dppca",
        *,
        touched: bool = True,
        other_form: bool = False,
    ) -> bytes:
        """A signature in OpenSSH's form; ``other_form`` is the second valid one, (r, n - s)."""
        digest = hashlib.sha512(message).digest()
        head = b"".join(map(field, (namespace.encode(), b"", b"sha512")))
        signed, kind, rest = b"SSHSIG" + head + field(digest), b"ecdsa-sha2-nistp256", b""
        if self.token:
            kind = b"sk-ecdsa-sha2-nistp256@openssh.com"
            rest = bytes([touched]) + b"\0\0\0\7"
            signed = hashlib.sha256(APPLICATION).digest() + rest + hashlib.sha256(signed).digest()
        r, s = decode_dss_signature(self.secret.sign(signed, ec.ECDSA(hashes.SHA256())))
        if other_form:
            s = ORDER - s
        inner = field(kind) + field(number(r) + number(s)) + rest
        return b"SSHSIG\0\0\0\1" + field(self.key.blob) + head + field(inner)

    def approve(self, statement: bytes, **options: Any) -> bytes:
        """An envelope with this person's signature over a statement."""
        namespace = read_signable(statement).terms.kind.namespace
        return write_approval(statement, [self.sign(encoded(statement), namespace, **options)])


ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def someone(number: int, *, token: bool = False) -> Someone:
    """The person of a number, the same in every process."""
    return Someone(ec.derive_private_key(10_000 + number, ec.SECP256R1()), token)


ANNA, BERT, CORA, DORA = map(someone, range(4))


def roles_of(
    people: Sequence[Someone] = (ANNA, BERT, CORA), *, needed: int = 2, **changes: Any
) -> dict[str, Any]:
    """What `Ledger.propose_roles` takes."""
    stated = [{"keys": [each.key.line], "group": f"g{n}"} for n, each in enumerate(people)]
    return {
        "owner": "hospital",
        "needed": needed,
        "people": stated,
        "one_of_each": [],
        "review_by": "2026-12-31",
        **changes,
    }


def lay_files(folder: Path, *, policy: str = POLICY) -> None:
    """Write the files beside a ledger that statements bind."""
    (folder / "policy.yaml").write_text(policy)
    (folder / "site.yaml").write_text("version: 1\nname: hospital\ncurator: hub:1\n")
    (folder / "ca.pem").write_text("the authority")


def begin_roles(ledger: Ledger, folder: Path, *, now: datetime = NOW, **options: Any) -> None:
    """Give a site the roles of Anna, Bert and Cora, of whom two must sign."""
    lay_files(folder)
    digest = ledger.propose_roles(roles_of(**options), now=now)
    for each in (ANNA, BERT, CORA):
        sign(ledger, digest, each, now=now)


def record_of(ledger: Ledger, digest: str) -> ProposalRecord:
    return ledger.history().approvals.records[digest]


def sign(ledger: Ledger, digest: str, *people: Someone, now: datetime = NOW) -> ProposalRecord:
    """Enter people's signatures over a statement."""
    for each in people:
        ledger.approve(each.approve(record_of(ledger, digest).statement.content), now=now)
    return record_of(ledger, digest)


def newest(ledger: Ledger) -> str:
    """Digest of the statement that was proposed last."""
    return list(ledger.history().approvals.records)[-1]


def proposed(ledger: Ledger, call: Any) -> str:
    """Digest of the statement that a refused call has proposed."""
    before = len(ledger.history().approvals.records)
    try:
        call()
    except NotApprovedError:
        assert len(ledger.history().approvals.records) == before + 1
        return newest(ledger)
    raise AssertionError("nobody was asked")


def seen(request: Any, evidence: Evidence = SEEN) -> Any:
    """A request for rows that were read."""
    return replace(request, evidence=evidence)


def armoured(signature: bytes) -> bytes:
    lines = base64.encodebytes(signature)
    return b"-----BEGIN SSH SIGNATURE-----\n" + lines + b"-----END SSH SIGNATURE-----\n"
