"""``dppca-owner review``."""

from __future__ import annotations

from pathlib import Path

import click

from common.console import emit, json_option
from owner.commands.options import data_set_option, study_argument, study_file_option
from owner.config import load_policy, load_site
from owner.contribution import forecast, review
from owner.ledger.database import read_history
from owner.records import open_table
from owner.render import review_document, review_text
from owner.session import agreed_study, connect


@click.command("review")
@study_argument
@data_set_option
@study_file_option
@json_option
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    data_set_name: str | None,
    study_file: Path | None,
    *,
    as_json: bool,
) -> None:
    """Show exactly what would leave this site, what it would cost, and what it may be good for.

    Nothing is drawn, charged or sent. The forecast follows from the study and the number of rows
    alone, so it may be looked at, and acted on, as often as you like.

    \b
    Example:
      dppca-owner review nltcs
      dppca-owner review nltcs --data-set survey --study-file nltcs.yaml --json
    """
    site = load_site(folder)
    data_set = load_policy(site).data_set(data_set_name)
    with connect(site) as client:
        study, state = agreed_study(site, client, study_name, study_file=study_file)
    table = open_table(data_set.path, study.table)
    history = read_history(site.ledger)
    found = review(
        study, history, n_rows=table.n_rows, data_set=data_set.name, budget=data_set.budget
    )
    expected = forecast(study, n_rows=table.n_rows)
    document = {"command": "review", **review_document(found, state, expected)}
    emit(document, review_text(found, state, expected), as_json=as_json)
