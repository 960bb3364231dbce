"""A site with roles and something of every kind in its ledger, and bundles that somebody bent."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.attestation.envelopes import Claim, SignedFile, sign_file, write_signed
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.consent.statement_terms import Also
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.verification.audit.form import AUDIT, AuditDocument, parse_audit
from dppca.common.verification.audit.report import AuditReport, check_audit
from dppca.owner.cli import cli
from dppca.owner.ledger.database import Ledger, open_ledger
from dppca.owner.ledger.entries import ReleaseKind
from tests.support.certificates import Authority, write_credentials
from tests.support.commands import answer_of
from tests.support.ledgers import NOW, drawn, ledger_files, request_of
from tests.support.people import ANNA, BERT, CORA, begin_roles, proposed, seen, sign
from tests.support.studies import make_study

STUDY = make_study(name="nltcs")
KEY, SET = "4" * 64, "5" * 64
Bend = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class AuditedSite:
    """A site called ``hospital``, and who certified it."""

    folder: Path
    authority: Authority
    credentials: Credentials

    def export(self, to: Path) -> Path:
        """Path of a new bundle that the command writes."""
        line = ("--site", self.folder, "audit", "--output", to)
        code, done = answer_of("dppca-owner", cli, *line)
        assert code == 0, done
        return Path(done["bundle"])

    def open(self) -> Any:
        """The site's ledger, for more entries."""
        return open_ledger(self.folder / "ledger.sqlite", lock=self.folder / "site.lock")

    def check(self, bundle: Path, **how: Any) -> AuditReport:
        return check_audit(bundle, **{"ca": self.authority.pem, **how})

    def bent(self, bundle: Path, bend: Bend, to: Path, *, again: bool = True) -> Path:
        """A bundle that somebody with the site's key bent; ``again`` makes all hashes fit."""
        document = json.loads(bundle.read_bytes())
        bend(document)
        if again:
            chain_again(document)
        return self.sign(canonical_json(document), to)

    def sign(self, content: bytes, to: Path, credentials: Credentials | None = None) -> Path:
        to.mkdir(exist_ok=True)
        signer = make_signer(credentials or self.credentials)
        file: SignedFile = sign_file(AUDIT, content, Claim.AUDIT, {}, signer)
        write_signed(to / AUDIT, file)
        return to / AUDIT


def make_audited_site(
    folder: Path, authority: Authority, *, roles: bool = True, also: Also | None = None
) -> AuditedSite:
    """A site with a contribution, a model, a vote, its opening and rows, signed by two people.

    They sign what ``also`` says with the contribution.
    """
    path, lock = ledger_files(folder)
    credentials = authority.issue(Role.OWNER, "hospital")
    with open_ledger(path, lock=lock) as ledger:
        if roles:
            begin_roles(ledger, folder)
        fill(ledger, roles=roles, also=also)
    if not roles:
        (folder / "site.yaml").write_text("version: 1\nname: hospital\ncurator: hub:1\n")
    write_credentials(folder, credentials)
    return AuditedSite(folder, authority, credentials)


def fill(ledger: Ledger, *, roles: bool, also: Also | None = None) -> None:
    request = replace(seen(request_of(STUDY)), reading_sha256="d" * 64, also=also)
    model = replace(request, kind=ReleaseKind.MODEL, name="m", request_digest="6" * 64, also=None)
    ledger.offer(STUDY.name, KEY, now=NOW)
    calls: list[Callable[[], Any]] = [
        lambda: ledger.reserve(request, release_id=b"i" * 16, now=NOW),
        lambda: ledger.reserve(model, release_id=b"j" * 16, now=NOW),
        lambda: ledger.vote(STUDY, KEY, SET, now=NOW),
        lambda: ledger.publish(STUDY, {"coded": (5, "7" * 64)}, now=NOW),
    ]
    for number, call in enumerate(calls):
        if roles and (also is None or number < 2):
            sign(ledger, proposed(ledger, call), ANNA, CORA)
        call()
    ledger.open_set(STUDY, KEY, Sums(SET, ((0, b"total"),)), n_owners=3, now=NOW)
    reserved = ledger.history().reservations[0]
    ledger.commit(drawn(STUDY, reserved), now=NOW)
    ledger.mark_sent(reserved.release_id, now=NOW)


def add_model(ledger: Ledger, name: str) -> None:
    """Another model that two people signed."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    request = seen(request_of(STUDY))
    model = replace(request, kind=ReleaseKind.MODEL, name=name, request_digest=digest)

    def call() -> Any:
        return ledger.reserve(model, release_id=digest.encode()[:16], now=NOW)

    sign(ledger, proposed(ledger, call), ANNA, BERT)
    call()


def chain_again(document: dict[str, Any]) -> None:
    """Number entries again and compute their hashes, as whoever has the site's key can."""
    head = "0" * 64
    for number, entry in enumerate(document["entries"], start=1):
        entry |= {"sequence": number, "previous": head}
        if "withheld" not in entry:  # nobody can compute the hash of another one
            rest = {key: each for key, each in entry.items() if key not in ("salt", "sha256")}
            salt = bytes.fromhex(entry.get("salt", ""))
            entry["sha256"] = hashlib.sha256(salt + canonical_json(rest)).hexdigest()
        head = entry["sha256"]
    document["look"] |= {"entries": len(document["entries"]), "head": head}


def entry_of(document: dict[str, Any], kind: str, which: int = 0) -> dict[str, Any]:
    """One of the entries of a kind."""
    return [each for each in document["entries"] if each["kind"] == kind][which]


def parsed(bundle: Path) -> AuditDocument:
    return parse_audit(bundle.read_bytes())
