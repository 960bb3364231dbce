"""``dppca-owner check``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from dppca.common.kernel.durable.files import open_new, replacing
from dppca.common.kernel.errors import DataError, ExitCode, SettingError
from dppca.common.shell.console import FILE, emit, prints, progress
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.owner.commands.options import (
    complete_study,
    data_set_option,
    engine_option,
    format_option,
    mapping_option,
)
from dppca.owner.engines.addresses import LOCAL

if TYPE_CHECKING:
    from dppca.common.kernel.schema import Schema
    from dppca.common.kernel.study import Study
    from dppca.owner.records.locations import Location
    from dppca.owner.records.mapping_places import MappingPlace
    from dppca.owner.records.table import Table
    from dppca.owner.records.text_format import TextFormat
    from dppca.owner.site.policy import DataSet


@click.command("check")
@click.argument("study_name", metavar="[STUDY]", required=False, shell_complete=complete_study)
@data_set_option
@click.option("--data", type=FILE, help="A data file, instead of a data set.")
@format_option
@mapping_option
@click.option("--key", metavar="COLUMN", help="With --data: the column that tells people apart.")
@click.option("--study-file", type=FILE, help="A study file, instead of a curator's study.")
@click.option("--target", metavar="ATTRIBUTE", help="Also say whether a classifier could learn it.")
@click.option(
    "--limit", type=click.IntRange(0), default=20, help="Row numbers to show for each fault."
)
@output_file(
    "--keys",
    "keys_file",
    help="Write the keys of rows at fault to a new file, which only you can read.",
    law=FileLaw(),
)
@engine_option
@prints("dppca.owner.render.faults:CheckDocument")
@click.pass_obj
def command(
    site: Path,
    study_name: str | None,
    data_set_name: str | None,
    data: Path | None,
    text_format: TextFormat | None,
    mapping: MappingPlace | None,
    key: str | None,
    study_file: Path | None,
    target: str | None,
    limit: int,
    keys_file: Path | None,
    engine: str | None,
    *,
    as_json: bool,
) -> int:
    """Compare data with a study's schema: list faults by attribute and row, never a value.

    The list is for this site only. Rows of a database have no number: --keys writes the keys of
    those at fault. No row makes a contribution fail: public rules code each faulty value
    as a valid one. Exits with 14 if there is a fault, and with 28 if there are more faults than the
    study allows (faults: refuse_if_above).

    With a key (`key:` in the policy, or --key) it counts the rows of each person, too: more than
    the study allows are a fault.

    \b
    Example:
      dppca-owner check --data rows.csv --study-file study.yaml
      dppca-owner check nltcs --data-set survey --target outside
    """
    from dppca.common.analysis.field.heaps import find_wide_bins
    from dppca.owner.engines.selection import open_engine
    from dppca.owner.records.check import check_table
    from dppca.owner.records.file_locations import local_files
    from dppca.owner.records.recognition import propose_formats
    from dppca.owner.records.text_format import USUAL
    from dppca.owner.render.faults import CheckDocument, check_text
    from dppca.owner.render.formats import format_lines

    if (study_name is None) == (study_file is None):
        raise SettingError("give the name of a study at the curator, or --study-file FILE")
    if data is not None and data_set_name is not None:
        raise SettingError("give --data-set NAME or --data FILE, not both")
    study = _find_study(site, study_name, study_file)
    if key is not None and data is None:
        raise SettingError("--key is for --data: a data set has its `key:` in policy.yaml")
    if text_format is not None and data is None:
        raise SettingError("--format is for --data: a data set has its `format:` in policy.yaml")
    if mapping is not None and data is None:
        raise SettingError("--mapping is for --data: a data set has its `mapping:` in policy.yaml")
    place: Location
    key, usual, named = key or "", LOCAL, None
    if data is None:
        data_set = _data_set(site, study, data_set_name)
        place, key, usual = data_set.source, data_set.key, data_set.engine
        named = data_set.name
    else:
        place = local_files(data, text_format or USUAL).mapped(mapping)
    if keys_file is not None and not key:
        raise SettingError(
            "--keys needs a data set with `key:`, its column of keys, in policy.yaml, or --key"
        )
    if keys_file is not None and engine not in (None, LOCAL):
        raise SettingError("--keys is written by this machine alone: leave out --engine")
    with (
        _open(place, study.table, named).latest(key) as table,
        progress("Reading rows", table.n_rows, unit="rows") as bar,
    ):
        if keys_file is not None:
            with _new_text(keys_file) as keys:
                report = check_table(
                    table,
                    study.table,
                    limit=limit,
                    target=target,
                    progress=bar.advance,
                    keys=keys,
                )
        else:
            with open_engine(engine or usual, site) as used:
                report = used.count_faults(table, limit=limit, target=target, progress=bar.advance)
    report = report.under(study.faults)
    wide = find_wide_bins(study.table)
    formats = () if report.faultless else propose_formats(place, study.table)
    written = tuple(each.to_yaml() for each in formats)
    document = CheckDocument(study.name, study.digest, keys_file, report, wide, written)
    text = "\n".join([*format_lines(formats, named), check_text(report)])
    emit(document, text, as_json=as_json)
    if report.above:
        return ExitCode.TOO_MANY_FAULTS
    return 0 if report.faultless else ExitCode.INVALID_ROWS


def _open(place: Location, schema: Schema, data_set: str | None) -> Table:
    """Open the rows; an error of their header says how they seem to be written."""
    from dppca.owner.records.recognition import propose_formats
    from dppca.owner.records.table import open_table
    from dppca.owner.render.formats import format_lines

    try:
        return open_table(place, schema)
    except DataError as error:
        lines: list[str] = []
        with suppress(DataError):  # the first error says what is wrong
            lines = format_lines(propose_formats(place, schema), data_set)
        raise DataError("\n".join([str(error), *lines])) from None


@contextmanager
def _new_text(path: Path) -> Iterator[TextIO]:
    """Open a new private file, which appears complete or not at all."""
    if path.exists():
        raise SettingError(f"{path} exists: name a new file for the keys")
    try:
        with (
            replacing(path, durable=False) as draft,
            open_new(draft) as file,
            io.TextIOWrapper(file, encoding="utf-8", newline="") as text,
        ):
            yield text
    except OSError as error:
        raise SettingError(f"{path} cannot be written: {error.strerror}") from error


def _data_set(folder: Path, study: Study, name: str | None) -> DataSet:
    """Return the data set of that name; without a name, the one that the study was charged to."""
    from dppca.owner.ledger.file import read_history
    from dppca.owner.release.contribution import choose_data_set
    from dppca.owner.site.config import load_site
    from dppca.owner.site.policy import load_policy

    site = load_site(folder)
    policy = load_policy(site)
    if name is not None:
        return policy.data_set(name)
    return choose_data_set(study, read_history(site.ledger), policy, None)


def _find_study(folder: Path, name: str | None, file: Path | None) -> Study:
    if file is not None:
        from dppca.common.analysis.study_file import study_from_yaml

        return study_from_yaml(file)
    from dppca.owner.client.calls import agreed_study, connect
    from dppca.owner.site.config import load_site

    site = load_site(folder)
    with connect(site) as client:
        return agreed_study(site, client, name or "", study_file=None)[0]
