"""``dppca-owner estimate``."""

from pathlib import Path
from typing import Any

import click

from dppca.common.kernel.durable.files import CA, REVOKED
from dppca.common.shell.console import prints
from dppca.common.verification.estimation import estimate, estimate_options
from dppca.owner.site import SITE_FILE


@click.command("estimate")
@estimate_options
@prints(
    "dppca.common.analysis.estimates.answers:AnswerDocument",
    "dppca.common.analysis.estimates.answers:AnswersDocument",
)
@click.pass_obj
def command(folder: Path, /, ca: Path | None, crl: Path | None, **given: Any) -> int:
    """Answer a question from a result, with an honest interval.

    Any number of answers costs no privacy. RESULT is checked first, as `verify` does. What the
    noise hides has no end, or spans all that is possible. Labels are named
    attribute=label. Exits with 52 if no authority's certificate was given, and 15 to 18 if a check
    fails.

    \b
    QUESTIONS

    \b
    Example:
      dppca-owner estimate components.npz mean age --by sex
      dppca-owner estimate components.npz odds-ratio sex=Male "income=>50K" --json
      dppca-owner estimate components.npz ols hours age sex --ca ca.pem
    """
    if ca is None and (folder / SITE_FILE).exists() and (folder / CA).exists():
        ca = folder / CA
        crl = crl or ((folder / REVOKED) if (folder / REVOKED).exists() else None)
    return estimate(ca=ca, crl=crl, **given)
