"""Common options and implementation of ``dppca-owner estimate`` and ``dppca-curator estimate``."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dppca.common.kernel.errors import ExitCode
from dppca.common.shell.console import FILE, emit, progress, tell

if TYPE_CHECKING:
    from dppca.common.analysis.estimates.answers import EstimateAnswer
    from dppca.common.analysis.estimates.face import Estimates
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.results import Published

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Question:
    """A question of the command, of ``fewest`` to ``most`` names; None is any number.

    ``usage`` is what follows it on a command line. ``options`` are those that it has beside the
    ones of every question; others are usage errors.
    """

    usage: str
    fewest: int
    most: int | None
    ask: Callable[["Estimates", tuple[str, ...], dict[str, Any]], "EstimateAnswer"]
    options: tuple[str, ...] = ()


QUESTIONS = {
    "mean": Question(
        "NUMBER [--by ATTRIBUTE]",
        1,
        1,
        lambda asked, names, more: asked.mean(names[0], **more),
        ("by",),
    ),
    "share": Question(
        "ATTRIBUTE[=LABEL] [--by ATTRIBUTE]",
        1,
        1,
        lambda asked, names, more: asked.proportion(names[0], **more),
        ("by",),
    ),
    "difference": Question(
        "NAME --by ATTRIBUTE",
        1,
        1,
        lambda asked, names, more: asked.difference(names[0], **more),
        ("by", "labels"),
    ),
    "table": Question("ATTRIBUTE ATTRIBUTE", 2, 2, lambda asked, names, _: asked.table(*names)),
    "independence": Question(
        "ATTRIBUTE ATTRIBUTE", 2, 2, lambda asked, names, _: asked.independence(*names)
    ),
    "odds-ratio": Question(
        "LABEL LABEL",
        2,
        2,
        lambda asked, names, more: asked.odds_ratio(*names, **more),
        ("against",),
    ),
    "relative-risk": Question(
        "LABEL LABEL",
        2,
        2,
        lambda asked, names, more: asked.relative_risk(*names, **more),
        ("against",),
    ),
    "correlation": Question(
        "NAME NAME ...", 2, None, lambda asked, names, _: asked.correlation(*names)
    ),
    "ols": Question(
        "OUTCOME NAME ...",
        2,
        None,
        lambda asked, names, more: _ols(asked, names, **more),
        ("variance",),
    ),
    "logit": Question(
        "OUTCOME NAME ... | 'OUTCOME ~ NAME + NAME:NAME'",
        1,
        None,
        lambda asked, names, more: asked.logit(names[0], names[1:] or None, **more),
        ("log",),
    ),
    "poisson": Question(
        "COUNT NAME ... | 'COUNT ~ NAME + NAME'",
        1,
        None,
        lambda asked, names, more: asked.poisson(names[0], names[1:] or None, **more),
        ("log",),
    ),
    "median": Question(
        "NUMBER [--by ATTRIBUTE]",
        1,
        1,
        lambda asked, names, more: asked.median(names[0], **more),
        ("by",),
    ),
    "quantile": Question(
        "NUMBER [LEVEL ...] [--by ATTRIBUTE]",
        1,
        None,
        lambda asked, names, more: asked.quantile(names[0], *_levels(names[1:]), **more),
        ("by",),
    ),
    "iqr": Question(
        "NUMBER [--by ATTRIBUTE]",
        1,
        1,
        lambda asked, names, more: asked.iqr(names[0], **more),
        ("by",),
    ),
    "summary": Question(
        "[NAME ...] [--by ATTRIBUTE] [--format FORMAT]",
        0,
        None,
        lambda asked, names, more: asked.summary(*names, by=more.get("by")),
        ("by", "format"),
    ),
    "survival": Question(
        "TIME EVENT [--by ATTRIBUTE]",
        2,
        2,
        lambda asked, names, more: asked.survival(*names, **more),
        ("by",),
    ),
    "components": Question("", 0, 0, lambda asked, _, __: asked.components()),
}


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
        click.argument("question", type=_QuestionType(list(QUESTIONS))),
        click.argument("result", type=FILE),
    ):
        command = option(command)
    command.__doc__ = _with_questions(command.__doc__ or "")
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
    level: float,
    adjust: Any,
    as_json: bool,
    **more: Any,
) -> int:
    """Verify a result, answer one question from it, print the answer and return the exit code."""
    from dppca.common.analysis.estimates.face import estimates
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.signatures import UNVOUCHED, UNVOUCHED_WHY
    from dppca.common.kernel.attestation.verify import read_authority, read_revoked

    asked = QUESTIONS[question]
    given = {name: value for name, value in more.items() if value is not None}
    _require_usage(question, names, given)
    authority = read_authority(ca)
    parties = KnownParties(authority, revoked=read_revoked(crl, ca=authority))
    published = read_published(result, parties, first=first)
    face = estimates(published, these_rows=these_rows, population=population)
    answer = replace(asked.ask(face, names, given), alpha=1 - level)
    if adjust is not None:
        answer = answer.adjusted(adjust)
    text = answer.lay_out(given.get("format", "text"))
    emit(answer.document(), text, as_json=as_json)
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


def _require_usage(name: str, names: tuple[str, ...], given: Collection[str]) -> None:
    question = QUESTIONS[name]
    fewest, most = question.fewest, question.most
    if len(names) < fewest or (most is not None and len(names) > most):
        wanted = f"{fewest}" if most == fewest else f"{fewest} or more"
        raise click.UsageError(f"{name} takes {wanted} names or labels, not {len(names)}")
    for option in given:
        if option not in question.options:
            takers = [each for each, one in QUESTIONS.items() if option in one.options]
            raise click.UsageError(f"{name} takes no --{option}: it is for {', '.join(takers)}")
    if name == "difference" and "by" not in given:
        raise click.UsageError("a difference needs --by, the attribute of the two groups")


def _levels(texts: tuple[str, ...]) -> list[float]:
    try:
        return [float(each) for each in texts]
    except ValueError:
        raise click.UsageError(
            f"levels of a quantile are numbers such as 0.25, not {' '.join(texts)}"
        ) from None


def _ols(asked: "Estimates", names: tuple[str, ...], **more: Any) -> "EstimateAnswer":
    with progress("Fitting", 100) as bar:
        return asked.ols(
            *(names[0], names[1:]), progress=lambda share: bar.reach(int(100 * share)), **more
        )
