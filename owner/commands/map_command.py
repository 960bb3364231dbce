"""``dppca-owner map``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dppca.common.kernel.errors import ConsentError, SettingError
from dppca.common.shell.console import FILE, KNOWN_FILE, emit, prints, say
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.owner.commands.options import complete_study, format_option

if TYPE_CHECKING:
    from dppca.common.kernel.schema import Schema
    from dppca.common.kernel.study import Study


@click.command("map")
@click.argument("study_name", metavar="STUDY", shell_complete=complete_study)
@click.argument("data", metavar="DATA", type=FILE)
@format_option
@click.option("--name", metavar="NAME", help="Name of the file in mappings/; by default DATA's.")
@click.option(
    "--dictionary",
    type=KNOWN_FILE,
    help="Data dictionary of DATA, as `study new` reads: what columns and codes mean, which codes "
    "are missing.",
)
@click.option(
    "--key", metavar="COLUMN", help="Column that tells people apart: rows are counted by it."
)
@click.option(
    "--missing",
    metavar="CODE",
    multiple=True,
    help="Code that the codebook says means missing, in every column. Repeatable.",
)
@click.option(
    "--accept",
    metavar="ATTRIBUTE",
    multiple=True,
    help="Take the doubtful lines of this attribute, too. Repeatable.",
)
@click.option("--again", is_flag=True, help="The file is there: keep its rules, add what is new.")
@output_file(
    "--export",
    help="Also write the study's two sheets (Opal, DataSchema) and the rules in words (.xlsx); it "
    "may hold words of rows.",
    law=FileLaw(),
)
@click.option("--yes", is_flag=True, help="Write without being asked.")
@prints("dppca.owner.render.mapping:MapDocument")
@click.pass_obj
def command(
    site: Path,
    study_name: str,
    data: Path,
    text_format: Any,
    name: str | None,
    dictionary: Path | None,
    key: str | None,
    missing: tuple[str, ...],
    accept: tuple[str, ...],
    export: Path | None,
    *,
    again: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Propose how the columns of a file become a study's attributes, and write it.

    STUDY is a study file, or a study at the curator. Names and labels are matched by their words,
    never by counts; you decide each line, from the codebook. What is doubtful is written as DECIDE
    and refused until somebody decides. Writes mappings/NAME.yaml, which only you can read; nothing
    of it leaves this site.

    \b
    Example:
      dppca-owner map study.yaml hospital.csv --missing 999 --dictionary codebook.xlsx
      dppca-owner map study.yaml clinic.xlsx --accept sex --yes
    """
    from dppca.common.kernel.documents.names import one_line
    from dppca.common.kernel.durable.files import PRIVATE, write_new
    from dppca.owner.commands.mapping import plan_mapping
    from dppca.owner.records.text_format import USUAL
    from dppca.owner.render.faults import check_text
    from dppca.owner.render.mapping import (
        MapDocument,
        draft_text,
        map_lines,
        policy_lines,
        unused_columns,
    )

    plan = plan_mapping(
        site,
        _study(site, study_name),
        data,
        text_format=text_format,
        name=name,
        key=key,
        missing=missing,
        dictionary=dictionary,
        again=again,
    )
    study, schema, form, path = plan.study, plan.study.table, plan.form, plan.path
    columns = plan.columns()
    draft = plan.draft(columns, accepted=accept)
    if export is not None and draft.undecided:
        raise SettingError(
            f"--export is for a mapping without DECIDE: {', '.join(map(one_line, draft.undecided))}"
        )
    shown = draft_text(draft, columns, form, schema)
    if not yes:
        if as_json:
            raise SettingError("--json asks no question: add --yes")
        say(shown, err=True)
        if not sys.stdin.isatty():
            raise ConsentError(
                "nothing was written: the question cannot be asked (standard input is not a "
                "terminal). Add --yes, and read the file before policy.yaml names it"
            )
        if not click.confirm("Write these lines?", default=False, err=True):
            raise ConsentError("declined: nothing was written")
    plan.write(draft)
    report = None if draft.undecided else plan.count()
    if export is not None:
        write_new(export, _exported(path, schema), mode=PRIVATE)
    relative = path.relative_to(site)
    document = MapDocument(
        study.name,
        study.digest,
        relative,
        map_lines(draft, columns, schema),
        draft.undecided,
        unused_columns(draft, columns),
        draft.gone,
        "" if form == USUAL else form.to_yaml(),
        report,
    )
    lines = [
        *([shown] if yes else []),
        "",
        f"Written: {path}",
        *policy_lines(relative, form, key or ""),
        *([] if export is None else [f"Read {export} before it leaves: it may hold words of rows"]),
    ]
    if report is None:
        names = ", ".join(map(one_line, draft.undecided))
        lines.append(
            f"NOT DECIDED: {names}. Write what each is in place of DECIDE, or take what is "
            "proposed (--again --accept ATTRIBUTE); the file is refused until then"
        )
    else:
        lines += ["", check_text(report)]
    emit(document, "\n".join(lines), as_json=as_json)


def _exported(path: Path, schema: Schema) -> bytes:
    from dppca.common.shell.dictionaries.data_schemas import write_workbook
    from dppca.owner.records.mapping_files import read_mapping
    from dppca.owner.records.mapping_places import MappingPlace
    from dppca.owner.records.mapping_words import describe_rule

    rules = read_mapping(MappingPlace(path)).rules(schema).rules
    lines = [[name, describe_rule(rule)] for name, rule in rules.items()]
    return write_workbook(schema, {"Harmonisation": [["variable", "rule"], *lines]})


def _study(site: Path, name: str) -> Study:
    """Return the study of a file, or of that name at the curator."""
    from dppca.common.analysis.study_file import study_from_yaml

    path = Path(name)
    if path.suffix in (".yaml", ".yml", ".json") or path.is_file():
        return study_from_yaml(path)
    from dppca.owner.client.calls import agreed_study, connect
    from dppca.owner.site.config import load_site

    folder = load_site(site)
    with connect(folder) as client:
        return agreed_study(folder, client, name, study_file=None)[0]
