"""``dppca-curator study``: begin, show, end and download studies of a running curator."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import click

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.tables import text_table
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.files import write_new
from dppca.common.kernel.errors import ConsentError, StudyStateError
from dppca.common.shell.console import FILE, CommandGroup, emit, prints, say, terminal_width
from dppca.common.shell.outputs import SIGNED, FileLaw, output_file
from dppca.curator.commands import study_assembly, study_drafts, study_refinement
from dppca.curator.commands.options import as_operator, connection, credentials_in, study_argument
from dppca.curator.operator.responses import ListedStudy, OwnerStatus, Studies, StudyDetails

if TYPE_CHECKING:
    from dppca.curator.operator.client import OperatorClient


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunStudyDocument:
    """Study that the curator knows now."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    already_stored: Annotated[bool, "whether the curator knew it before"]
    owners: Annotated[tuple[str, ...], "owners of the study"]


@dataclass(frozen=True, slots=True)
class TemplateDocument:
    """Template of a study file."""

    template: Annotated[str, "the file's content (YAML)"]
    path: Annotated[Path | None, "file that was written"] = None


@dataclass(frozen=True, slots=True)
class StudyStateDocument:
    """State of a study after a command."""

    study: Annotated[str, "name of the study"]
    state: Annotated[StudyState, "state afterwards"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadDocument:
    """File that was downloaded."""

    study: Annotated[str, "name of the study"]
    path: Annotated[Path, "the file"]
    bytes: Annotated[int, "its size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadedRowsDocument(DownloadDocument):
    """Synthetic rows that were downloaded."""

    form: Annotated[str, "`coded` or `decoded`"]
    rows: Annotated[int, "number of rows"]


@click.group(cls=CommandGroup)
def study() -> None:
    """Create and show studies of a running curator.

    All but `template`, `new`, `check`, `assemble` and `refine` need a certificate.

    \b
    Example:
      export DPPCA_CURATOR=hub.example.org:7443 DPPCA_CREDENTIALS=alice
      dppca-curator study template --output nltcs.yaml
      dppca-curator study create nltcs.yaml
      dppca-curator study show nltcs
    """


@study.command()
@output_file("--output", help="The new file; by default print it.", law=FileLaw())
@prints(TemplateDocument)
def template(output: Path | None, *, as_json: bool) -> None:
    """Write a study file in which every field is explained.

    Needs no curator and no certificate.

    \b
    Example:
      dppca-curator study template --output study.yaml
    """
    from dppca.curator.commands.study_template import TEMPLATE

    if output is None:
        emit(TemplateDocument(TEMPLATE), TEMPLATE.rstrip("\n"), as_json=as_json)
        return
    write_new(output, TEMPLATE)
    text = (
        f"{output}: change the placeholders.\nnext: dppca-curator study check {quote(str(output))}"
    )
    emit(TemplateDocument(TEMPLATE, output), text, as_json=as_json)


study.add_command(study_drafts.new)
study.add_command(study_drafts.check)
study.add_command(study_assembly.command)


@study.command()
@click.argument("file", type=FILE)
@click.option("--yes", is_flag=True, help="Create it without purpose, contact or approval.")
@connection
@prints(BegunStudyDocument)
def create(file: Path, curator: str, credentials: Path, *, yes: bool, as_json: bool) -> None:
    """Begin the study described in FILE (YAML). The same file again has no effect.

    Asks if it does not say its purpose, contact or approval: stewards decide by them.

    \b
    Example:
      dppca-curator study create nltcs.yaml --curator localhost:7443 --credentials alice
    """
    from dppca.common.analysis.estimates.forecast import require_answerable
    from dppca.curator.study.codable import require_codable

    begun = study_assembly.read_study(file)
    require_codable(begun.table)  # the curator does too, but says why in its log alone
    require_answerable(begun)
    if begun.stated.undecided and not yes:
        _ask(file, ", ".join(begun.stated.undecided))
    with as_operator(curator, credentials) as client:
        existed = client.create(begun)
    document = BegunStudyDocument(
        study=begun.name, digest=begun.digest, already_stored=existed, owners=begun.owners
    )
    verb = "was there already" if existed else "waits for its owners"
    emit(document, f"Study {begun.name} {verb}. Digest: {begun.digest}", as_json=as_json)


@study.command("list")
@connection
@prints(Studies)
def list_studies(curator: str, credentials: Path, *, as_json: bool) -> None:
    """List all studies, newest first, and for which owners each waits.

    Also what each costs, and how long it waits.

    Names the owners of an open study that may have no certificate.

    \b
    Example:
      dppca-curator study list --json
    """
    with as_operator(curator, credentials) as client:
        studies = client.studies()
    text = list_text(studies, width=terminal_width())
    emit(Studies(studies=studies), text, as_json=as_json)


@study.command()
@study_argument
@connection
@prints(StudyDetails)
def show(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Show study NAME: who has contributed, voted, opened, and when.

    Also how many rows each owner has.

    \b
    Example:
      dppca-curator study show nltcs
    """
    with as_operator(curator, credentials) as client:
        details = client.show(name)
    emit(details, _describe(details, width=terminal_width()), as_json=as_json)


@study.command()
@study_argument
@output_file("--output", required=True, help="The new file.", law=SIGNED)
@connection
@prints(DownloadDocument)
def components(name: str, output: Path, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Download and verify the joint components of study NAME (.npz).

    \b
    Example:
      dppca-curator study components nltcs --output nltcs.npz
    """
    from dppca.common.verification.components import nothing_in

    with as_operator(curator, credentials) as client:
        result = client.download_components(name, output)
    size, nothing = output.stat().st_size, nothing_in(result)
    text = f"{output}: {size} bytes; every signature, digest and claim in it was verified."
    if nothing is not None:
        text = f"{nothing}\n{text}"
    emit(DownloadDocument(study=name, path=output, bytes=size), text, as_json=as_json)


@study.command()
@study_argument
@click.option(
    "--form",
    type=click.Choice(["decoded", "coded"]),
    default="decoded",
    show_default=True,
    help="Rows that conform to the schema, or the model's own coordinates.",
)
@output_file("--output", required=True, help="The new file: .parquet, .arrow or .csv.", law=SIGNED)
@connection
@prints(DownloadedRowsDocument)
def synthetic(
    name: str, form: str, output: Path, curator: str, credentials: Path, *, as_json: bool
) -> None:
    """Download published synthetic rows of study NAME as one table.

    \b
    Example:
      dppca-curator study synthetic nltcs --form decoded --output nltcs.parquet
    """
    from dppca.common.kernel.attestation.signatures import make_signer
    from dppca.common.kernel.documents.messages import Form
    from dppca.curator.operator.downloads import require_format, require_proved, write_table

    require_format(output)
    loaded = credentials_in(credentials)
    signer = make_signer(loaded)
    with as_operator(curator, credentials) as client:
        stream = output.with_name(f".{output.name}.stream")
        try:
            client.download_synthetic(name, Form(form), stream)
            require_proved(stream, ca=loaded.ca)
            n_rows = write_table(stream, output, signer)
        finally:
            stream.unlink(missing_ok=True)
    document = DownloadedRowsDocument(
        study=name, form=form, rows=n_rows, path=output, bytes=output.stat().st_size
    )
    emit(document, f"{output}: {many(n_rows, 'synthetic rows')}.", as_json=as_json)


study.add_command(study_refinement.command)


@study.command()
@study_argument
@connection
@prints(StudyStateDocument)
def close(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Take no more synthetic rows for study NAME. Results stay available.

    \b
    Example:
      dppca-curator study close nltcs
    """
    needed = "only one with a result is closed"
    with as_operator(curator, credentials) as client, _telling_state(client, name, needed):
        state = client.close(name)
    emit(StudyStateDocument(name, state), f"Study {name} is {state.value}.", as_json=as_json)


@study.command()
@study_argument
@click.option("--reason", required=True, help="Shown to the owners; at most 200 characters.")
@connection
@prints(StudyStateDocument)
def abort(name: str, reason: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """End study NAME, open or sealed, without a result. What owners sent stays charged.

    \b
    Example:
      dppca-curator study abort nltcs --reason "The schema was wrong."
    """
    needed = "only one that waits is aborted, and what was released cannot be taken back"
    with as_operator(curator, credentials) as client, _telling_state(client, name, needed):
        state = client.abort(name, reason)
    emit(StudyStateDocument(name, state), f"Study {name} is {state.value}.", as_json=as_json)


@contextmanager
def _telling_state(client: "OperatorClient", name: str, needed: str) -> Iterator[None]:
    """Say which state a study is in, where that does not allow what is asked."""
    from dppca.common.shell.study_words import show_state

    try:
        yield
    except StudyStateError as error:
        state = show_state(client.show(name).summary.state)
        raise StudyStateError(f"study {name} is {state}: {needed}") from error


def _ask(file: Path, unsaid: str) -> None:
    """Ask whether to create a study without texts; `ConsentError` if it is not agreed to."""
    lacks = (
        f"{file} does not say: {unsaid}. Stewards decide by them, and their policy may refuse it: "
        "write each into the file; where there is none, say so in words, such as `approval: none "
        "needed, the rows are public`"
    )
    if not sys.stdin.isatty():
        raise ConsentError(f"{lacks}. Or create it as it is with --yes. Nothing was sent")
    say(f"{lacks}.", err=True)
    if not click.confirm("Create it as it is?", default=False, err=True):
        raise ConsentError("declined: nothing was sent")


def list_text(studies: Sequence[ListedStudy], *, width: int | None) -> str:
    """Return a table of studies, and hints on owners that may have no certificate."""
    from dppca.common.shell.study_words import show_state

    if not studies:
        return "No studies yet."
    names = ("study", "state", "contributions", "epsilon", "deadline", "missing", "title")
    rows = [
        (
            each.name,
            show_state(each.state),
            f"{each.contributions} of {each.owners}",
            each.cost,
            "" if each.deadline is None else f"{each.deadline:%Y-%m-%d %H:%M} UTC",
            str(each.missing),
            each.title or "",
        )
        for each in studies
    ]
    hints = [f"Study {each.name}. {each.hint}." for each in studies if each.hint]
    return "\n".join([*text_table(names, rows, width=width), *hints])


def _describe(details: StudyDetails, *, width: int | None) -> str:
    from dppca.common.kernel.study import study_from_canonical
    from dppca.common.shell.study_header import StudyHeader
    from dppca.common.shell.study_words import show_state

    summary = details.summary
    study = study_from_canonical(details.document)
    lines = [
        *StudyHeader(study, summary.state).lines(),
        f"Study {summary.name}, {show_state(summary.state)}: "
        f"{summary.contributions} of {many(summary.owners, 'owners')} "
        f"{'has' if summary.owners == 1 else 'have'} contributed.",
        f"Digest:  {summary.digest}",
        f"Created: {summary.created.isoformat()}",
    ]
    if details.reason:
        lines.append(f"Reason:  {details.reason}")
    if details.sealed is not None:
        lines.append(f"Sealed:  {details.sealed.isoformat()}, set {details.set_digest}")
    if details.missing_openers:
        lines.append(f"Waits to be opened by: {', '.join(details.missing_openers)}")
    names = ("owner", "received", study.unit.counts, "bytes", "synthetic rows", "opener")
    has_openers = any(owner.opener for owner in details.owners)
    shown = len(names) if has_openers else len(names) - 1
    rows = [(owner.name, *_sent(owner), _opening(owner))[:shown] for owner in details.owners]
    lines += text_table(names[:shown], rows, width=width, right=(2, 3))
    return "\n".join([*lines, *([f"{summary.hint}."] if summary.hint else [])])


def _sent(owner: OwnerStatus) -> tuple[str, str, str, str]:
    if owner.received is None:
        return "missing", "", "", ""
    synthetic = f"{owner.synthetic_coded_rows} coded, {owner.synthetic_decoded_rows} decoded"
    return owner.received.isoformat(), str(owner.n_rows or "secret"), str(owner.bytes), synthetic


def _opening(owner: OwnerStatus) -> str:
    if not owner.opener:
        return "no"
    steps = (("voted", owner.voted), ("opened", owner.opened))
    done = [f"{what} {when.isoformat()}" for what, when in steps if when is not None]
    return ", ".join(done) or "not yet"
