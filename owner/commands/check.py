"""``dppca-owner check``."""

from __future__ import annotations

from pathlib import Path

import click

from common.console import emit, json_option, progress
from common.errors import InvalidRowsError, SettingError
from common.study import Study
from owner.commands.options import data_set_option, file_path
from owner.config import load_policy, load_site
from owner.records import check_table, open_table
from owner.render import check_text
from owner.studies import study_from_file


@click.command("check")
@click.argument("study_name", metavar="[STUDY]", required=False)
@data_set_option
@click.option("--data", type=file_path, help="A data file, instead of a data set.")
@click.option("--study-file", type=file_path, help="A study file, instead of a curator's study.")
@click.option("--target", metavar="ATTRIBUTE", help="Say whether a classifier of it could learn.")
@click.option("--limit", type=click.IntRange(0), default=20, help="Row numbers shown per fault.")
@json_option
@click.pass_obj
def command(
    site: Path,
    study_name: str | None,
    data_set_name: str | None,
    data: Path | None,
    study_file: Path | None,
    target: str | None,
    limit: int,
    *,
    as_json: bool,
) -> int:
    """Compare data with a study's schema: every fault, by attribute and row, never a value.

    What is found is for this site only. A contribution never fails because of a row: its rules
    code what is faulty as something valid. Leaves with 14 where there is a fault.

    \b
    Example:
      dppca-owner check --data rows.csv --study-file study.yaml
      dppca-owner check nltcs --data-set survey --target outside
    """
    if (study_name is None) == (study_file is None):
        message = "give the name of a study at the curator, or --study-file FILE"
        raise SettingError(message)
    if data is not None and data_set_name is not None:
        message = "give --data-set NAME or --data FILE, not both"
        raise SettingError(message)
    path = data if data is not None else load_policy(load_site(site)).data_set(data_set_name).path
    study = _study_of(site, study_name) if study_file is None else study_from_file(study_file)
    table = open_table(path, study.table)
    with progress("Reading rows", table.n_rows, unit="rows") as bar:
        report = check_table(table, study.table, limit=limit, target=target, progress=bar.advance)
    document = {"command": "check", "study": study.name, "digest": study.digest}
    emit({**document, **report.to_document()}, check_text(report), as_json=as_json)
    return 0 if report.faultless else InvalidRowsError.exit_code


def _study_of(folder: Path, name: str | None) -> Study:
    from owner.session import agreed_study, connect

    site = load_site(folder)
    with connect(site) as client:
        return agreed_study(site, client, name or "", study_file=None)[0]
