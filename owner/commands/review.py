"""``dppca-owner review``."""

from __future__ import annotations

from pathlib import Path

import click

from dppca.common.console import emit, prints
from dppca.common.errors import TooManyFaultsError
from dppca.owner.client.session import agreed_study, connect
from dppca.owner.commands.counting import counted_faults
from dppca.owner.commands.options import data_set_option, study_argument, study_file_option
from dppca.owner.ledger.reading import read_history
from dppca.owner.records import open_table
from dppca.owner.release.contribution import choose_data_set, forecast, review
from dppca.owner.render.faults import counts_text
from dppca.owner.render.texts import ReviewDocument, review_document, review_text
from dppca.owner.site.config import load_policy, load_site


@click.command("review")
@study_argument
@data_set_option
@study_file_option
@prints(ReviewDocument)
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    data_set_name: str | None,
    study_file: Path | None,
    *,
    as_json: bool,
) -> int:
    """Show exactly what would leave this site, what it would cost, and how useful it may be.

    Nothing is drawn, charged or sent. The forecast follows from the study and the number of rows
    alone, so you may look at it, and act on it, as often as you like.

    The rows are read once, to count the values that are coded by rule (missing, unknown, out of
    bounds). Those counts stay at this site. Exits with 28 if there are more faults than the study
    allows (faults: refuse_if_above); `contribute` shows the same counts and asks you.

    \b
    Example:
      dppca-owner review nltcs
      dppca-owner review nltcs --data-set survey --study-file nltcs.yaml --json
    """
    site = load_site(folder)
    policy = load_policy(site)
    with connect(site) as client:
        study, state = agreed_study(site, client, study_name, study_file=study_file)
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, data_set_name)
    table = open_table(data_set.path, study.table)
    found = review(
        study, history, n_rows=table.n_rows, data_set=data_set.name, budget=data_set.budget
    )
    expected = forecast(study, found.calibration, n_rows=table.n_rows)
    counted = counted_faults(table, quiet=as_json)
    document: ReviewDocument = {
        "command": "review",
        **review_document(found, state, expected),
        "coded_by_rule": counted.counts_document(study.faults),
    }
    text = f"{review_text(found, state, expected)}\n{counts_text(counted, study.faults)}"
    emit(document, text, as_json=as_json)
    return TooManyFaultsError.exit_code if counted.above(study.faults) else 0
