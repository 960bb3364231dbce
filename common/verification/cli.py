"""``dppca-verify``: for somebody who was handed a file, and has no site.

The commands are those of `dppca-owner`, without a site's folder in which to look for ``ca.pem``.
"""

from pathlib import Path
from typing import Any, NoReturn

import click

from dppca.common.shell.console import FILE, CommandGroup, emit, prints, run_and_end, say
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.common.shell.pasting import repeat_options
from dppca.common.verification.command import verification_options, verify
from dppca.common.verification.estimation import estimate, estimate_options


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dppca-verify")
def cli() -> None:
    """Check released files, and answer questions from them. Works offline; no privacy is spent.

    \b
    Example:
      dppca-verify verify components.npz --ca ca.pem
      dppca-verify estimate components.npz mean age --by sex --ca ca.pem
      dppca-verify approve statement-3f9a12c0aa41.json --key ~/.ssh/dppca-hospital
      dppca-verify audit audit-2026/audit.json --ca ca.pem
    """
    repeat_options("dppca-verify", [], commands=cli.commands)


@cli.command("verify")
@verification_options
@prints("dppca.common.kernel.attestation.documents:Verification")
def _verify(**given: Any) -> int:
    """Check what a released FILE claims: components, rows or a model.

    Checks every signature and digest, and computes sensitivity, noise and guarantee again from the
    study in the receipt. If something is wrong, exits with 15 to 18 and names the part at fault.
    Exits with 51 if the result leaves out a contribution that a curator acknowledged, and with 52
    if no authority's certificate was given: then the file is consistent, and anybody may have made
    it.

    \b
    Example:
      dppca-verify verify components.npz --ca ca.pem
      dppca-verify verify synthetic-decoded.parquet --ca ca.pem --crl crl.pem --json
    """
    return verify(own=None, **given)


@cli.command("estimate")
@estimate_options
@prints(
    "dppca.common.analysis.estimates.answers:AnswerDocument",
    "dppca.common.analysis.estimates.answers:AnswersDocument",
)
def _estimate(**given: Any) -> int:
    """Answer a question from a result, with an honest interval.

    Any number of answers costs no privacy. RESULT is checked first, as `verify` does. What the
    noise hides has no end, or spans all that is possible. Labels are named
    attribute=label. Exits with 52 if no authority's certificate was given, and 15 to 18 if a check
    fails.

    \b
    QUESTIONS

    \b
    Example:
      dppca-verify estimate components.npz mean age --by sex --ca ca.pem
      dppca-verify estimate components.npz ols hours age sex --ca ca.pem --json
    """
    return estimate(**given)


@cli.command("approve")
@click.option("--key", type=FILE, required=True, help="Your key's file, for ssh-keygen -Y sign.")
@output_file("--output", help="File for the signature; by default beside FILE.", law=FileLaw())
@prints("dppca.common.verification.approving:ApprovalDocument")
@click.argument("file", type=FILE)
def _approve(file: Path, key: Path, output: Path | None, *, as_json: bool) -> None:
    """Read a statement of your site, and sign it with a key of your own.

    Run it on a machine of yours, never at the site, and forward no agent to the site. It checks the
    study's digest and price, shows everything that is signed, and asks. Hand the file that it
    writes back to the site. KEY is of `ssh-keygen -t ecdsa`, or of -t ecdsa-sk with a token.

    \b
    Example:
      dppca-verify approve statement-3f9a12c0aa41.json --key ~/.ssh/dppca-hospital
    """
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.common.kernel.durable.files import read_content, write_file
    from dppca.common.kernel.errors import ConsentError
    from dppca.common.verification.approving import (
        ApprovalDocument,
        describe_statement,
        read_proposal,
        sign_with_openssh,
    )

    found = read_proposal(read_content(file), now=utc_now())
    say(describe_statement(found), err=True)
    if not click.confirm("Sign this?", default=False, err=True):
        raise ConsentError("declined: nothing was signed")
    approval, person = sign_with_openssh(found.statement, key)
    kept = output or file.with_name(f"{file.stem}-{person.point[:4].hex()}.approval.json")
    write_file(kept, approval)
    terms = found.statement.terms
    document = ApprovalDocument(
        statement=found.statement.sha256,
        kind=terms.kind.value,
        owner=terms.owner,
        fingerprint=person.fingerprint,
        approval=kept,
    )
    emit(document, f"Signed: {kept}. Hand it back to the site.", as_json=as_json)


@cli.command("audit")
@click.option("--ca", type=FILE, help="The authority's certificate.")
@click.option("--crl", type=FILE, help="The authority's revocation list.")
@click.option("--since", type=FILE, help="An earlier audit.json of the site, which you have kept.")
@output_file("--page", help="Also write it as a page that prints on A4 (.html).", law=FileLaw())
@prints("dppca.common.verification.audit.report:AuditReport")
@click.argument("file", type=FILE)
def _audit(
    file: Path,
    ca: Path | None,
    crl: Path | None,
    since: Path | None,
    page: Path | None,
    *,
    as_json: bool,
) -> int:
    """Check the record of a site, and say what it shows.

    FILE is audit.json, which `dppca-owner audit` wrote. Checks signature, ledger, receipts and
    people's signatures, and adds up what was spent. With --since, also that the record continues
    the one that you kept: else exits with 48. Exits with 15 to 18 if the bundle does not hold, with
    34 if something left without signatures that the site's roles ask for, with 48 if an earlier
    export was of another ledger, and with 52 if no authority's certificate was given.

    \b
    Example:
      dppca-verify audit audit-2026/audit.json --ca ca.pem --since audit-2025/audit.json
    """
    from dppca.common.kernel.attestation.verify import read_authority, read_revoked
    from dppca.common.kernel.durable.files import SHARED, write_file
    from dppca.common.kernel.errors import ChainError, ExitCode, NotApprovedError
    from dppca.common.verification.audit.report import audit_page, audit_text, check_audit

    authority = read_authority(ca)
    revoked = read_revoked(crl, ca=authority)
    report = check_audit(file, ca=authority, revoked=revoked, since=since)
    if page is not None:
        write_file(page, audit_page(report, ca=ca).encode(), mode=SHARED)
    emit(report, audit_text(report, ca=ca), as_json=as_json)
    if report.unsigned:
        return NotApprovedError.exit_code
    if report.replaced:
        return ChainError.exit_code
    return ExitCode.UNVOUCHED if report.authority is None else 0


def main() -> NoReturn:
    """Entry point."""
    run_and_end(cli)


if __name__ == "__main__":
    main()
