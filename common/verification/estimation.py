"""Common options and implementation of ``dppca-owner estimate`` and ``dppca-curator estimate``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dppca.common.kernel.errors import ExitCode, SettingError
from dppca.common.shell.console import FILE, emit, progress, tell

if TYPE_CHECKING:
    from dppca.common.analysis.estimates.answers import EstimateAnswer
    from dppca.common.analysis.estimates.face import Estimates
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.results import Published

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Question = Callable[["Estimates", tuple[str, ...], dict[str, Any]], "EstimateAnswer"]
QUESTIONS: dict[str, tuple[int, int | None, _Question]] = {
    "mean": (1, 1, lambda asked, names, more: asked.mean(names[0], by=more["by"])),
    "share": (1, 1, lambda asked, names, more: asked.proportion(names[0], by=more["by"])),
    "difference": (1, 1, lambda asked, names, more: _difference(asked, names[0], more)),
    "table": (2, 2, lambda asked, names, _: asked.table(*names)),
    "independence": (2, 2, lambda asked, names, _: asked.independence(*names)),
    "odds-ratio": (
        2,
        2,
        lambda asked, names, more: asked.odds_ratio(names[0], names[1], more["against"]),
    ),
    "relative-risk": (
        2,
        2,
        lambda asked, names, more: asked.relative_risk(names[0], names[1], more["against"]),
    ),
    "correlation": (2, None, lambda asked, names, _: asked.correlation(*names)),
    "ols": (2, None, lambda asked, names, more: _ols(asked, names, more)),
    "components": (0, 0, lambda asked, _, __: asked.components()),
}
"""For each question: the fewest and most names that follow it, and who answers."""


def estimate_options(command: _Command) -> _Command:
    """Add the arguments and options of an estimate."""
    for option in (
        click.option("--by", metavar="ATTRIBUTE", help="Attribute whose labels make the groups."),
        click.option(
            "--labels",
            nargs=2,
            metavar="FIRST SECOND",
            help="The two labels of --by that a difference compares.",
        ),
        click.option("--against", metavar="LABEL", help="Compare with this label, not all others."),
        click.option(
            "--variance",
            type=click.Choice(["constant", "bound", "sandwich"]),
            help="How rows vary around a regression.",
        ),
        click.option(
            "--these-rows", is_flag=True, help="Intervals for these rows, not for a population."
        ),
        click.option("--population", type=click.IntRange(min=1), help="Members of the population."),
        click.option(
            "--adjust",
            type=click.Choice(["bonferroni", "holm"]),
            help="Adjust for all estimates of the answer at once.",
        ),
        click.option(
            "--first", type=FILE, help="Result of the study that RESULT's study continues."
        ),
        click.option("--crl", type=FILE, help="The authority's revocation list."),
        click.option(
            "--ca",
            type=FILE,
            help="The authority's certificate; without it, nobody vouches for RESULT.",
        ),
        click.argument("names", nargs=-1),
        click.argument("question", type=click.Choice(list(QUESTIONS))),
        click.argument("result", type=FILE),
    ):
        command = option(command)
    return command


def estimate(
    result: Path,
    question: str,
    names: tuple[str, ...],
    *,
    ca: Path | None,
    crl: Path | None,
    first: Path | None,
    these_rows: bool,
    population: int | None,
    adjust: Any,
    as_json: bool,
    **more: Any,
) -> int:
    """Verify a result, answer one question from it, print the answer and return the exit code."""
    from dppca.common.analysis.estimates.face import estimates
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.signatures import UNVOUCHED, UNVOUCHED_WHY
    from dppca.common.kernel.attestation.verify import read_authority, read_revoked

    fewest, most, ask = QUESTIONS[question]
    if len(names) < fewest or (most is not None and len(names) > most):
        wanted = f"{fewest}" if most == fewest else f"{fewest} or more"
        raise click.UsageError(f"{question} takes {wanted} names or labels, not {len(names)}")
    authority = read_authority(ca)
    parties = KnownParties(authority, revoked=read_revoked(crl, ca=authority))
    published = read_published(result, parties, first=first)
    answer = ask(estimates(published, these_rows=these_rows, population=population), names, more)
    if adjust is not None:
        answer = answer.adjusted(adjust)
    emit(answer.document(), answer.summary(), as_json=as_json)
    if authority is None:
        tell(f"{UNVOUCHED}: {UNVOUCHED_WHY} --ca")
        return ExitCode.UNVOUCHED
    return 0


def read_published(path: Path, parties: "KnownParties", *, first: Path | None) -> "Published":
    """Read and verify the result of a study and, if it is given, of the one that it continues.

    Raise `ArtefactError` if a file is no result, `StudyError` if the study does not continue the
    first one, and the errors of `verify_result_file` if a check fails.
    """
    from dppca.common.kernel.attestation.results import Published
    from dppca.common.kernel.attestation.verify import verify_result_file
    from dppca.common.kernel.errors import ArtefactError
    from dppca.common.kernel.study import require_continues

    try:
        checked, result, _ = verify_result_file(path, parties)
        if first is not None:
            earlier, before, signed = verify_result_file(first, parties)
            require_continues(earlier.study, checked.study, result_sha256=signed.sha256)
            result = replace(result, first=Published(earlier.study, before))
    except OSError as error:
        raise ArtefactError(f"{error.filename} cannot be read: {error.strerror}") from error
    return Published(checked.study, result)


def _difference(asked: "Estimates", name: str, more: dict[str, Any]) -> "EstimateAnswer":
    if more["by"] is None:
        raise SettingError("a difference needs --by, the attribute of the two groups")
    return asked.difference(name, more["by"], more["labels"])


def _ols(asked: "Estimates", names: tuple[str, ...], more: dict[str, Any]) -> "EstimateAnswer":
    with progress("Fitting", 100) as bar:
        return asked.ols(
            names[0],
            names[1:],
            variance=more["variance"],
            progress=lambda share: bar.reach(int(100 * share)),
        )
