"""``dppca-verify``: for somebody who was handed a file, and has no site.

The commands are those of `dppca-owner`, without a site's folder in which to look for ``ca.pem``.
"""

from typing import Any, NoReturn

import click

from dppca.common.shell.console import CommandGroup, prints, run_and_end
from dppca.common.shell.pasting import repeat_options
from dppca.common.verification.command import verification_options, verify
from dppca.common.verification.estimation import estimate, estimate_options


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dppca-verify")
def cli() -> None:
    """Check released files, and answer questions from them. Works offline; no privacy is spent.

    \b
    Example:
      dppca-verify verify components.npz --ca ca.pem
      dppca-verify estimate components.npz mean age --by sex --ca ca.pem
    """
    repeat_options("dppca-verify", [], commands=cli.commands)


@cli.command("verify")
@verification_options
@prints("dppca.common.kernel.attestation.documents:Verification")
def _verify(**given: Any) -> int:
    """Check what a released FILE claims: components, rows or a model.

    Checks every signature and digest, and computes sensitivity, noise and guarantee again from the
    study in the receipt. If something is wrong, exits with 15 to 18 and names the part at fault.
    Exits with 51 if the result leaves out a contribution that a curator acknowledged, and with 52
    if no authority's certificate was given: then the file is consistent, and anybody may have made
    it.

    \b
    Example:
      dppca-verify verify components.npz --ca ca.pem
      dppca-verify verify synthetic-decoded.parquet --ca ca.pem --crl crl.pem --json
    """
    return verify(own=None, **given)


@cli.command("estimate")
@estimate_options
@prints(
    "dppca.common.analysis.estimates.answers:AnswerDocument",
    "dppca.common.analysis.estimates.answers:AnswersDocument",
)
def _estimate(**given: Any) -> int:
    """Answer a question from a result, with an honest interval.

    Any number of answers costs no privacy. RESULT is checked first, as `verify` does. What the
    noise hides has no end, or spans all that is possible. Labels are named
    attribute=label. Exits with 52 if no authority's certificate was given, and 15 to 18 if a check
    fails.

    \b
    QUESTIONS

    \b
    Example:
      dppca-verify estimate components.npz mean age --by sex --ca ca.pem
      dppca-verify estimate components.npz ols hours age sex --ca ca.pem --json
    """
    return estimate(**given)


def main() -> NoReturn:
    """Entry point."""
    run_and_end(cli)


if __name__ == "__main__":
    main()
