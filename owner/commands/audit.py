"""``dppca-owner audit``."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from dppca.common.kernel.documents.values import DigestText
from dppca.common.shell.console import emit, prints
from dppca.common.shell.outputs import claiming, output_folder

if TYPE_CHECKING:
    from dppca.common.kernel.attestation.envelopes import SignedFile
    from dppca.common.verification.audit.form import AuditDocument, Look, PastLook
    from dppca.owner.ledger.file import LedgerArchive
    from dppca.owner.site.config import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditExport:
    """A bundle that was written for an auditor."""

    number: Annotated[int, "number of this export, from 1"]
    entries: Annotated[int, "entries of the ledger"]
    head: Annotated[DigestText, "hash of the last entry"]
    sha256: Annotated[DigestText, "SHA-256 of the bundle, which the next one names"]
    bundle: Annotated[Path, "the bundle; its envelope lies beside it"]


@click.command("audit")
@output_folder("--output", help="Folder for the bundle.", required=True)
@prints(AuditExport)
@click.pass_obj
def command(folder: Path, output: Path, *, as_json: bool) -> None:
    """Write this site's record for an auditor, who checks it elsewhere.

    Verifies the whole ledger, then writes it with receipts, roles and their signatures, signed by
    the site's key. No row, no mapping and no fact behind a statement is in it. Each export is
    counted in looks.jsonl, with the account and, by sudo, who asked; the next bundle shows it. The
    auditor keeps every bundle and runs `dppca-verify audit`.

    \b
    Example:
      dppca-owner audit --output audit-2026
    """
    from dppca.common.kernel.attestation.envelopes import SUFFIX, write_signed
    from dppca.common.kernel.attestation.signatures import make_signer
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.common.kernel.durable.files import SHARED, writing
    from dppca.common.kernel.identity.tls import load_credentials
    from dppca.common.verification.audit.form import AUDIT, sign_audit
    from dppca.common.verification.audit.looks import past
    from dppca.owner.ledger.database import LOCK_WAIT_S, require_newest
    from dppca.owner.ledger.file import read_archive
    from dppca.owner.ledger.lock import lock_site
    from dppca.owner.site.config import load_site
    from dppca.owner.site.looks import keep_looks, next_look, read_looks

    site = load_site(folder)
    signer = make_signer(load_credentials(site))
    with (
        claiming(output, [AUDIT, AUDIT + SUFFIX]),
        lock_site(site.lock, wait_s=LOCK_WAIT_S),
    ):
        archive, looks = read_archive(site.ledger), read_looks(site)
        require_newest(site.ledger)
        look = next_look(looks, archive.history, utc_now())
        bundle: SignedFile = sign_audit(_record(site, archive, looks, look), signer)
        # Before anything is handed over: an export that is not counted could be denied.
        keep_looks(site, [*looks, past(look, bundle.sha256.hex())])
        with writing(output / AUDIT):
            write_signed(output / AUDIT, bundle, mode=SHARED)
    document = AuditExport(
        number=look.number,
        entries=look.entries,
        head=look.head,
        sha256=bundle.sha256.hex(),
        bundle=output / AUDIT,
    )
    emit(
        document,
        f"Export {look.number}, {look.entries} entries: {document.bundle}\n"
        f"SHA-256 {document.sha256}: tell it the auditor by another way.",
        as_json=as_json,
    )


def _record(
    site: "Site", archive: "LedgerArchive", looks: "list[PastLook]", look: "Look"
) -> "AuditDocument":
    """Return what a site has on record, without what must not leave."""
    import json

    from dppca.common.kernel.consent.statement_kinds import StatementKind
    from dppca.common.kernel.privacy.receipts import SOFTWARE
    from dppca.common.verification.audit.form import AuditDocument, without_withheld
    from dppca.owner.ledger.tools import exported

    history = archive.history
    proposed = [
        each.roles
        for each in history.approvals.records.values()
        if each.statement.terms.kind is StatementKind.ROLES
    ]
    roles = {each.sha256: json.loads(each.content) for each in proposed}
    return AuditDocument(
        version=1,
        owner=site.name,
        software=SOFTWARE,
        look=look,
        looks=looks,
        entries=[without_withheld(dict(each)) for each in exported(archive.rows)],
        roles=list(roles.values()),
        receipts=[json.loads(archive.receipts[key]) for key in history.commitments],
    )
