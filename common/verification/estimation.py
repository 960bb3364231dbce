"""Common options and implementation of ``dppca-owner estimate`` and ``dppca-curator estimate``."""

from collections.abc import Callable
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dppca.common.analysis.estimates.questions import (
    QUESTIONS,
    StudyQuestion,
    answer_study,
    usage_fault,
)
from dppca.common.kernel.errors import ExitCode, SettingError
from dppca.common.shell.console import FILE, emit, progress, tell

if TYPE_CHECKING:
    from dppca.common.analysis.estimates.answers import EstimateAnswer
    from dppca.common.analysis.estimates.face import Estimates
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.results import Published

_Command = TypeVar("_Command", bound=Callable[..., Any])


_NO_QUESTION = {
    "percentile": "ask for `quantile`, such as `quantile age 0.9`",
    **dict.fromkeys(
        ("min", "minimum", "max", "maximum"),
        "a study releases sums, which have no smallest or largest value: that is one person's",
    ),
    **dict.fromkeys(("mode", "count", "proportion"), "ask for `share`"),
    "regression": "ask for `ols` of a number, for `logit` of two labels",
    "linear": "ask for `ols`",
    "logistic": "ask for `logit`",
    "risk-difference": "ask for `difference` or, adjusted, for `marginal-effects`",
}


class _QuestionType(click.Choice[str]):
    """Name of a question; for some that are asked elsewhere, what to ask here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; a message of click for any other."""
        if value in _NO_QUESTION:
            self.fail(f"{value}: {_NO_QUESTION[value]}", param, ctx)
        return super().convert(value, param, ctx)


def _once(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str | None:
    """Return the only value of an option; a message of click for several."""
    if len(given) > 1:
        raise click.BadParameter(
            f"it is given {len(given)} times ({', '.join(given)}), and groups are by one "
            "attribute: ask once for each",
            ctx,
            param,
        )
    return given[0] if given else None


def _with_questions(help_text: str) -> str:
    """Return a command's docstring with the list of questions in the place of ``QUESTIONS``."""
    lines = (f"  {name} {question.usage}".rstrip() for name, question in QUESTIONS.items())
    whole = "\n".join(("Questions, with the names that follow:", *lines))
    return cleandoc(help_text).replace("QUESTIONS", whole)


def estimate_options(command: _Command) -> _Command:
    """Add the arguments and options of an estimate, and its questions to the help."""
    for option in (
        click.option(
            "--by",
            metavar="ATTRIBUTE",
            multiple=True,
            callback=_once,
            help="Attribute whose labels make the groups.",
        ),
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
            "--log",
            is_flag=True,
            default=None,
            help="Log odds, or logs of ratios, of a regression.",
        ),
        click.option(
            "--format",
            type=click.Choice(["text", "html", "latex", "csv"]),
            help="How a summary is printed.",
        ),
        click.option(
            "--these-rows", is_flag=True, help="Intervals for these rows, not for a population."
        ),
        click.option("--population", type=click.IntRange(min=1), help="Members of the population."),
        click.option(
            "--level",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            default=0.95,
            show_default=True,
            help="Probability that an interval covers the truth.",
        ),
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
        click.argument("question", required=False, type=_QuestionType(list(QUESTIONS))),
        click.argument("result", type=FILE),
    ):
        command = option(command)
    command.__doc__ = _with_questions(command.__doc__ or "")
    return command


def estimate(
    result: Path,
    question: str | None,
    names: tuple[str, ...],
    *,
    ca: Path | None,
    crl: Path | None,
    first: Path | None,
    these_rows: bool,
    population: int | None,
    level: float,
    adjust: Any,
    as_json: bool,
    **more: Any,
) -> int:
    """Verify a result, answer a question, or its study's, print that and return the exit code."""
    from dppca.common.analysis.estimates.answers import AnswersDocument
    from dppca.common.analysis.estimates.face import estimates
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.signatures import UNVOUCHED, UNVOUCHED_WHY
    from dppca.common.kernel.attestation.verify import read_authority, read_revoked

    given = {name: value for name, value in more.items() if value is not None}
    if question is not None and (wrong := usage_fault(question, names, given)):
        raise click.UsageError(wrong)
    if question is None and given:
        raise click.UsageError(f"--{min(given)} belongs to a question: name one")
    authority = read_authority(ca)
    parties = KnownParties(authority, revoked=read_revoked(crl, ca=authority))
    published = read_published(result, parties, first=first)
    face = estimates(published, these_rows=these_rows, population=population)
    if question is None:
        answers = answer_study(face, adjust or "bonferroni", alpha=1 - level, ask=_ask)
        if not answers:
            raise SettingError(
                f"study {published.study.name} has no questions of its own: name one, such as "
                "`components`; --help lists them"
            )
        whole = AnswersDocument(
            published.study.questions or (), tuple(each.document() for each in answers)
        )
        emit(whole, "\n\n".join(each.summary() for each in answers), as_json=as_json)
    else:
        answer = replace(
            _ask(face, StudyQuestion(question, question, names, given)), alpha=1 - level
        )
        if adjust is not None:
            answer = answer.adjusted(adjust)
        emit(answer.document(), answer.lay_out(given.get("format", "text")), as_json=as_json)
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


def _ask(face: "Estimates", question: StudyQuestion) -> "EstimateAnswer":
    if question.kind != "ols":
        return question.ask(face)
    with progress("Fitting", 100) as bar:
        return question.ask(face, progress=lambda share: bar.reach(int(100 * share)))
