"""``dppca-curator study assemble``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import click

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.files import read_text, write_new
from dppca.common.shell.console import KNOWN_FILE, emit, prints
from dppca.common.shell.outputs import FileLaw, output_file

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledStudyDocument:
    """Study file with its owners' keys."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    path: Annotated[Path, "the file that was written"]
    owners: Annotated[tuple[str, ...], "owners of the study"]
    openers: Annotated[list[str], "owners that open the sum"]


def read_study(file: Path) -> Study:
    """Return the study that a YAML file describes, its owners' keys included.

    Raise `SettingError` if the file cannot be read, `StudyError` if it is no study, or has no keys.
    """
    from dppca.common.kernel.errors import StudyError

    study, lacks_keys = read_draft_or_study(file)
    if lacks_keys:
        steps = "; ".join(
            f"{number}. `{step}`" for number, step in enumerate(key_steps(file, study), start=1)
        )
        raise StudyError(f"{file} lacks the owners' keys, which trust: aggregate needs: {steps}")
    return study


def read_draft_or_study(file: Path) -> tuple[Study, bool]:
    """Return the study that a YAML file describes, and whether it lacks only its owners' keys.

    The digest of one that lacks them means nothing. Raise as `read_study`.
    """
    from dppca.common.analysis.study_file import study_from_yaml
    from dppca.curator.study.assembly import read_draft

    text = read_text(file)
    draft = read_draft(text)
    return (study_from_yaml(text), False) if draft is None else (draft, True)


def key_steps(file: Path, study: Study) -> list[str]:
    """Return the steps from a draft without its owners' keys to a study that has begun."""
    from dppca.curator.study.assembly import fewest_openers

    whole = file.with_name(f"{file.stem}-with-keys{file.suffix}")
    return [
        f"dppca-owner identity {study.name} --opener  # every steward, who sends you what it "
        f"prints; {fewest_openers(study)} at least with --opener",
        f"dppca-curator study assemble {quote(str(file))} keys/* --output {quote(str(whole))}  # "
        "what they sent is in keys/",
        f"dppca-curator study create {quote(str(whole))}",
    ]


@click.command("assemble")
@click.argument("study_file", type=KNOWN_FILE)
@click.argument("identities", type=KNOWN_FILE, nargs=-1, required=True)
@output_file("--output", required=True, help="The new file.", law=FileLaw())
@prints(AssembledStudyDocument)
def command(study_file: Path, identities: tuple[Path, ...], output: Path, *, as_json: bool) -> None:
    """Put the owners' keys into a STUDY_FILE with trust: aggregate.

    IDENTITIES are files with what `dppca-owner identity STUDY` printed at each site, with or
    without --json. The new file is one that `study create` takes.

    \b
    Example:
      dppca-curator study assemble nltcs-draft.yaml keys/*.yaml --output nltcs.yaml
    """
    from dppca.curator.study.assembly import assemble_study

    parts = [(str(path), read_text(path)) for path in identities]
    whole, study = assemble_study(read_text(study_file), parts)
    write_new(output, whole)
    openers = sorted(study.openers or {})
    assembled = AssembledStudyDocument(
        study=study.name,
        digest=study.digest,
        path=output,
        owners=study.owners,
        openers=openers,
    )
    text = (
        f"{output}: {many(len(study.owners), 'owners')}; openers: {', '.join(openers)}\n"
        "The stewards compare the study's digest among themselves, not with you.\n"
        f"next: dppca-curator study create {quote(str(output))}"
    )
    emit(assembled, text, as_json=as_json)
