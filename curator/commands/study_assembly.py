"""``dppca-curator study assemble``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from dppca.common.documents.values import DigestText
from dppca.common.shell.console import FILE, KNOWN_FILE, emit, prints
from dppca.common.shell.files import read_text, write_new

if TYPE_CHECKING:
    from dppca.common.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledStudyDocument:
    """Study file with its owners' keys."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    path: Annotated[Path, "the file that was written"]
    owners: Annotated[tuple[str, ...], "owners of the study"]
    openers: Annotated[list[str], "owners that open the sum"]


def read_study(file: Path) -> Study:
    """Return the study that a YAML file describes; `SettingError` if it cannot be read."""
    from dppca.common.study import study_from_yaml

    return study_from_yaml(read_text(file))


@click.command("assemble")
@click.argument("study_file", type=KNOWN_FILE)
@click.argument("identities", type=KNOWN_FILE, nargs=-1, required=True)
@click.option("--output", type=FILE, required=True, help="The new file.")
@prints(AssembledStudyDocument)
def command(study_file: Path, identities: tuple[Path, ...], output: Path, *, as_json: bool) -> None:
    """Put the owners' keys into STUDY_FILE, which has trust: aggregate.

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
        f"{output}: {len(study.owners)} owners; openers: {', '.join(openers)}\nnext: dppca-curator "
        f"study create {output}\nThe stewards compare the study's digest among themselves, not "
        "with you."
    )
    emit(assembled, text, as_json=as_json)
