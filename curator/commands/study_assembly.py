"""``dppca-curator study assemble``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from dppca.common.documents.values import DigestText
from dppca.common.errors import SettingError
from dppca.common.shell.console import emit, prints
from dppca.common.shell.files import read_text

if TYPE_CHECKING:
    from dppca.common.study import Study

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


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
@click.argument("study_file", type=_FILE)
@click.argument("identities", type=_FILE, nargs=-1, required=True)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The new file."
)
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
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(whole)
    except OSError as error:
        raise SettingError(f"cannot write the new file {output}: {error.strerror}") from error
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
