"""``dppca-owner review``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dppca.common.console import emit, prints
from dppca.owner.commands.options import (
    data_set_option,
    digest_option,
    study_argument,
    study_file_option,
)

if TYPE_CHECKING:
    from dppca.owner.render.texts import ReviewDocument


@click.command("review")
@study_argument
@data_set_option
@study_file_option
@digest_option
@prints("dppca.owner.render.texts:ReviewDocument")
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    data_set_name: str | None,
    study_file: Path | None,
    digest: str | None,
    *,
    as_json: bool,
) -> int:
    """Show exactly what would leave this site, what it would cost, and how useful it may be.

    Nothing is drawn, charged or sent. The forecast follows from the study and the number of rows
    alone, so you may look at it, and act on it, as often as you like.

    The rows are read once, to count the values that are coded by rule (missing, unknown, out of
    bounds). Those counts stay at this site. Exits with 28 if there are more faults than the study
    allows (faults: refuse_if_above); `contribute` shows the same counts and asks you.

    For a study with trust: aggregate it also shows who takes part and who opens, against whom the
    sums are protected, and what is left if more owners collude. Give --digest as another owner's
    steward has it, not as the curator's operator says it: then the keys are verified, and kept in
    peers.yaml.

    \b
    Example:
      dppca-owner review nltcs
      dppca-owner review nltcs --data-set survey --study-file nltcs.yaml --json
    """
    from dppca.common.errors import TooManyFaultsError
    from dppca.owner.client.session import agreed_study, connect
    from dppca.owner.commands.counting import counted_faults
    from dppca.owner.ledger.reading import read_history
    from dppca.owner.records import open_table
    from dppca.owner.release.contribution import choose_data_set, forecast, review
    from dppca.owner.render.faults import counts_text
    from dppca.owner.render.texts import review_document, review_text
    from dppca.owner.site.agreement import agree, find_refusal
    from dppca.owner.site.config import load_policy, load_site

    site = load_site(folder)
    policy = load_policy(site)
    with connect(site) as client:
        study, state = agreed_study(site, client, study_name, study_file=study_file)
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, data_set_name)
    table = open_table(data_set.source, study.table)
    agreement = agree(site, study, digest=digest)
    found = review(
        study,
        history,
        n_rows=table.n_rows,
        data_set=data_set.name,
        budget=data_set.budget,
        terms=None if agreement is None else agreement.terms,
        query_sha256=table.query_sha256,
    )
    refusal = None if agreement is None else find_refusal(study, agreement.terms, data_set)
    expected = forecast(study, found.calibration, n_rows=table.n_rows)
    counted = counted_faults(table, quiet=as_json)
    document: ReviewDocument = {
        "command": "review",
        **review_document(found, state, expected, agreement),
        "refused": refusal,
        "coded_by_rule": counted.counts_document(study.faults),
    }
    text = f"{review_text(found, state, expected, agreement)}\n{counts_text(counted, study.faults)}"
    if refusal is not None:
        text += f"\nNOT ALLOWED, `contribute` would refuse: {refusal}"
    emit(document, text, as_json=as_json)
    return TooManyFaultsError.exit_code if counted.above(study.faults) else 0
