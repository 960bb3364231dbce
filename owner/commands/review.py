"""``dppca-owner review``."""

from pathlib import Path
from typing import Any

import click

from dppca.common.shell.console import FILE, emit, prints
from dppca.owner.commands.options import (
    data_set_option,
    digest_option,
    engine_option,
    study_argument,
    study_file_option,
)


@click.command("review")
@study_argument
@data_set_option
@study_file_option
@digest_option
@engine_option
@click.option(
    "--grown-on",
    type=FILE,
    help="Rows that a further study's trees were grown on: grow them again, and compare.",
)
@prints("dppca.owner.render.review:ReviewDocument")
@click.pass_obj
def command(folder: Path, /, grown_on: Path | None, *, as_json: bool, **given: Any) -> int:
    """Show exactly what would leave this site, what it would cost, and how useful it may be.

    Nothing is drawn, charged or sent. The forecast follows from the study and the number of rows
    alone, so you may look at it, and act on it, as often as you like.

    The rows are read once, to count the values that are coded by rule (missing, unknown, out of
    bounds). Those counts stay at this site. Exits with 28 if there are more faults than the study
    allows (faults: refuse_if_above); `contribute` shows the same counts and asks you. If
    `contribute` would refuse, exits with the same code, such as 21 for a budget that is too small.

    For a study with trust: aggregate it also shows who takes part and who opens, against whom the
    sums are protected, and what is left if more owners collude. Take --digest from another
    owner's steward, not from the curator's operator: then the keys are verified, and kept in
    peers.yaml.

    \b
    Example:
      dppca-owner review nltcs
      dppca-owner review nltcs --data-set survey --study-file nltcs.yaml --json
    """
    from functools import partial
    from shlex import join

    from dppca.common.kernel.errors import ExitCode
    from dppca.common.shell.console import progress
    from dppca.owner.commands.contribute import ContributionOptions
    from dppca.owner.commands.preview import preview_contribution
    from dppca.owner.release.next_step import NextStep
    from dppca.owner.site.config import load_site

    study = given["study_name"]
    show = partial(progress, enabled=not as_json)
    preview = preview_contribution(
        load_site(folder), ContributionOptions(**given), grown_on=grown_on, progress=show
    )
    text = "\n".join([*preview.alarms, preview.text()])
    if not preview.refusals:
        named = given["data_set_name"]
        line = ["contribute", study, *([] if named is None else ["--data-set", named])]
        if preview.review.step is NextStep.NOTHING:
            line = ["components", study]
        text = f"{text}\nNext: {join(['dppca-owner', *line])}"
    emit(preview.document(), text, as_json=as_json)
    if preview.refusals:
        return preview.refusals[0].exit_code
    return ExitCode.TOO_MANY_FAULTS if preview.counted.above else 0
