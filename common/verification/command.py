"""Common options and implementation of ``dppca-owner verify`` and ``dppca-curator verify``."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.durable.files import read_content
from dppca.common.kernel.errors import ExitCode
from dppca.common.shell.console import FILE, FOLDER, emit
from dppca.common.shell.outputs import output_folder

_Command = TypeVar("_Command", bound=Callable[..., Any])


def verification_options(command: _Command) -> _Command:
    """Add the argument FILE and the options of a verification."""
    options: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--acknowledgement",
            "acknowledgements",
            type=FILE,
            multiple=True,
            help="A curator's signed acknowledgement of a contribution, which FILE must list. May "
            "be given several times.",
        ),
        click.option(
            "--held-since",
            type=click.DateTime(["%Y-%m-%d"]),
            help="You have held FILE unchanged since this day (UTC): certificates that were "
            "revoked later are accepted, and shown.",
        ),
        click.option(
            "--uploads",
            type=FOLDER,
            help="Folder of what owners and openers sent, each file named by its SHA-256, as in "
            "the curator's blobs/: add it up, and compare the sum with FILE's.",
        ),
        output_folder(
            "--dossier",
            help="Folder for FILE's entry in the public registry, sheets and annexes, as Markdown "
            "and HTML for A4. Needs the authority's certificate.",
        ),
        click.option(
            "--answers",
            type=FILE,
            help="YAML file of what a dossier asks for and nobody signed; else dossier.yaml of the "
            "site, or of this folder.",
        ),
        click.option("--crl", type=FILE, help="The authority's revocation list."),
        click.option(
            "--ca",
            type=FILE,
            help="The authority's certificate; without it, nobody vouches for FILE.",
        ),
        click.argument("file", type=FILE),
    )
    for option in options:
        command = option(command)
    return command


def verify(
    file: Path,
    *,
    ca: Path | None,
    crl: Path | None,
    held_since: datetime | None,
    acknowledgements: Sequence[Path],
    uploads: Path | None,
    dossier: Path | None = None,
    answers: Path | None = None,
    place: Path = Path(),
    own: Callable[[str], Path] | None = None,
    as_json: bool,
) -> int:
    """Verify a file, print the verified claims, and return the exit code.

    ``held_since`` is naive, UTC, the beginning of a day; ``own`` maps a study's name to the path of
    this site's acknowledgement. ``dossier`` is a folder to write, ``answers`` the file of what it
    asks for, by default in ``place``.
    """
    from dppca.common.kernel.attestation.contributions import compare, read_study_digest
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.verify import read_authority, read_revoked
    from dppca.common.verification.files import UnvouchedWarning, check_file, verification_text

    authority = read_authority(ca)
    revoked = read_revoked(crl, ca=authority)
    since = None if held_since is None else held_since.replace(tzinfo=UTC)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnvouchedWarning)  # the text and the exit code say it
        checked = check_file(file, ca=authority, revoked=revoked, held_since=since, uploads=uploads)
    report = checked.report
    contents = [read_content(path) for path in acknowledgements]
    if own is not None and authority is not None and report.study:
        path = own(report.study)
        kept = read_content(path) if path.is_file() else b""
        contents += [kept] if kept and read_study_digest(kept) == report.study_digest else []
    parties = KnownParties(authority, revoked=revoked, held_since=since)
    agreeing = tuple(compare(content, report, parties) for content in contents)
    report = replace(report, acknowledged=agreeing)
    text = verification_text(report, ca=ca)
    if dossier is not None:
        from dppca.common.verification.dossier.writing import ANSWERS, dossier_of

        written = dossier_of(checked, dossier, place / ANSWERS if answers is None else answers)
        text += f"\n  dossier of {many(len(written), 'files')}: {dossier}"
    emit(report, text, as_json=as_json)
    return ExitCode.UNVOUCHED if authority is None else 0
