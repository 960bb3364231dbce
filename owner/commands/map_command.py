"""``dppca-owner map``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dppca.common.kernel.errors import ConsentError, DataError, SettingError
from dppca.common.shell.console import FILE, KNOWN_FILE, emit, prints, say
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.owner.commands.options import complete_study, format_option

if TYPE_CHECKING:
    from dppca.common.kernel.schema import Schema
    from dppca.common.kernel.study import Study
    from dppca.common.shell.dictionaries.dictionary import Dictionary
    from dppca.owner.records.faults import CheckReport
    from dppca.owner.records.locations import Location

FOLDER_NAME = "mappings"


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
    from dppca.common.kernel.durable.files import PRIVATE, write_file, write_new
    from dppca.common.shell.dictionaries.recognition import read_dictionary
    from dppca.owner.records.file_locations import local_files
    from dppca.owner.records.mapping_drafts import make_draft, site_columns
    from dppca.owner.records.text_format import USUAL
    from dppca.owner.render.faults import check_text
    from dppca.owner.render.mapping import (
        MapDocument,
        draft_text,
        map_lines,
        policy_lines,
        unused_columns,
    )

    path = site / FOLDER_NAME / f"{_file_name(name or data.name.partition('.')[0])}.yaml"
    before = _before(path, again=again)
    study = _study(site, study_name)
    said = None if dictionary is None else read_dictionary(dictionary)
    place: Location = local_files(data, text_format or USUAL)
    place = place if text_format is not None else _written(place, study, said)
    schema, form = study.table, place.text_format or USUAL
    source = place.open()
    if key is not None and key not in source.names:
        raise SettingError(
            f"--key {key} is no column of {source.title}: name one as it stands there"
        )
    columns = site_columns(source, schema.attributes, key or "", said)
    draft = make_draft(schema, columns, accepted=accept, missing=missing, before=before)
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
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = draft.text(f"how {data.name} becomes the attributes of {study.name}")
        write_file(path, text.encode())
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error
    report = None if draft.undecided else _count(place, path, study, key or "")
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


def _file_name(name: str) -> str:
    from dppca.common.kernel.documents.names import require_party_name

    try:
        return require_party_name(name)
    except ValueError as error:
        raise SettingError(f"{name!r} cannot name a mapping (--name NAME): {error}") from None


def _before(path: Path, *, again: bool) -> dict[str, Any]:
    """Return the document of the file that is there; empty without one."""
    from dppca.common.kernel.documents.yaml_text import NotYamlError, load_yaml

    if not path.exists():
        return {}
    if not again:
        raise SettingError(f"{path} is there: --again keeps its rules and adds what is new")
    try:
        document = load_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, NotYamlError):
        raise SettingError(f"{path} cannot be read as YAML: correct it, or remove it") from None
    if not isinstance(document, dict) or not isinstance(document.get("attributes") or {}, dict):
        raise SettingError(f"{path} is no mapping: correct it, or remove it")
    return document


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


def _written(place: Location, study: Study, said: Dictionary | None) -> Location:
    """Return the place with the one format that reads the most cells."""
    from dppca.common.kernel.schema import Attribute
    from dppca.owner.records.mapping_drafts import said_of
    from dppca.owner.records.mapping_proposals import propose_columns
    from dppca.owner.records.recognition import propose_formats
    from dppca.owner.render.formats import format_lines

    attributes, likely = study.table.attributes, dict[str, Attribute]()
    for _ in range(2):  # the header is found first, and then the cells below its names
        formats = propose_formats(place, study.table, likely=likely)
        if len(formats) > 1:
            lines = format_lines(formats, None)
            raise DataError("\n".join([f"{place.title} can be read in several ways", *lines]))
        place = place.written(formats[0]) if formats else place
        names = [said_of(name, said) for name in dict.fromkeys(place.open().parts[0].names)]
        found = propose_columns(attributes, names)
        likely = {found[a.name].column: a for a in attributes if found[a.name].column}
    return place


def _count(place: Location, path: Path, study: Study, key: str) -> CheckReport:
    from dppca.owner.records.check import check_table
    from dppca.owner.records.mapping_places import MappingPlace
    from dppca.owner.records.table import open_table

    with open_table(place.mapped(MappingPlace(path)), study.table).latest(key) as table:
        return check_table(table, study.table).under(study.faults)
