"""How wide intervals will be: of a study's questions, and of those that a schema suggests.

The latter are the mean of its first number (one that rows may lack comes last), the difference
of that number between two groups, the share of a label, a cell of the table of its first two
attributes with labels, a correlation, and the adjusted coefficient of the smallest group: a label
of the attribute that has most of them. Before a study they are put to moments whose values are
spread evenly and without relations
(`dppca.common.analysis.estimates.release.expected_moments`), whose noise is known exactly. Numbers
that fill a small part of their bounds have smaller intervals for means, and wider ones for
coefficients; rare labels, wider ones for groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import floor, inf, isfinite, isnan, log10, sqrt
from typing import TYPE_CHECKING, Annotated

from dppca.common.analysis.estimates.questions import StudyQuestion, question_words, read_question
from dppca.common.kernel.errors import SettingError, StudyError

if TYPE_CHECKING:
    from dppca.common.analysis.estimates.answers import EstimateAnswer
    from dppca.common.analysis.estimates.face import Estimates
    from dppca.common.analysis.estimates.release import ReconciledMoments
    from dppca.common.analysis.estimates.variables import Names
    from dppca.common.kernel.study import Study

ALPHA = 0.05  # of the intervals whose width is told
_ROWS = 100_000  # of each owner, where only whether a question has an answer is judged
_SHOWN = 4  # widths in a line
_OTHERS = 2  # attributes that a coefficient is adjusted for: a usual number


@dataclass(frozen=True, slots=True)
class ForecastWidth:
    """Width of one interval."""

    question: Annotated[str, "what would be estimated, in the words of the schema"]
    reach: Annotated[
        float | None, "half the width of its 95 % interval, in its unit; null: not estimable"
    ]
    is_factor: Annotated[bool, "whether it is the factor from the middle to each end"] = False

    @property
    def text(self) -> Annotated[str, "the same in words, two digits"]:
        """Half the width with two digits, or that there will be none."""
        if self.reach is None:
            return "not estimable"
        known = self.reach - self.is_factor  # of 1.085, that by which it is above 1
        digits = 1 - floor(log10(known)) if known > 0 else 0
        size = f"{round(self.reach, digits):.{max(0, digits)}f}"
        return f"a factor of {size}" if self.is_factor else f"± {size}"


@dataclass(frozen=True, slots=True)
class QuestionForecast:
    """What a study's question would get: the widths of its intervals, or why there is no answer."""

    question: Annotated[str, "the question, as the study has it"]
    widths: Annotated[tuple[ForecastWidth, ...], "each estimate's, without an intercept's"] = ()
    refusal: Annotated[str | None, "why the study cannot answer it, and what would"] = None

    @property
    def text(self) -> str:
        """The widths of the first estimates, or the refusal."""
        if self.refusal is not None:
            return f"CANNOT BE ANSWERED: {self.refusal}"
        shown = [f"{each.question} {each.text}" for each in self.widths[:_SHOWN]]
        left = len(self.widths) - len(shown)
        return "; ".join(shown) + (f"; and {left} more" if left else "") or "no forecast"

    @property
    def line(self) -> str:
        """Question and text, for people."""
        return f"{question_words(self.question)}: {self.text}"


def forecast_widths(moments: ReconciledMoments) -> tuple[ForecastWidth, ...]:
    """Return half the widths of the schema's questions, put to released or expected moments.

    A question that the study's release cannot answer is left out.
    """
    from dppca.common.analysis.estimates.face import Estimates  # not for a command's help

    found = []
    for question, ask in suggest_questions(moments.names):
        with suppress(SettingError):
            answer, place = ask(Estimates(moments))
            low, high = answer.conf_int(ALPHA)[place]
            reach = float(high - low) / 2
            found.append(ForecastWidth(question, reach if isfinite(reach) else None))
    return tuple(found)


def forecast_questions(moments: ReconciledMoments) -> tuple[QuestionForecast, ...]:
    """Return widths for the questions of a study, from expected moments; none without any.

    They are those of intervals that hold all at once, with a chance of 95 %.
    """
    if not moments.study.questions:
        return ()
    from dppca.common.analysis.estimates.face import Estimates

    found: dict[str, QuestionForecast] = {}
    answers: dict[StudyQuestion, EstimateAnswer] = {}
    for line in moments.study.questions:
        found[line] = QuestionForecast(line)
        try:
            asked = read_question(line)
            if asked.kind != "components":  # of which a study says itself how many it has
                answers[asked] = asked.ask(Estimates(moments))
        except SettingError as error:
            found[line] = QuestionForecast(line, refusal=str(error))
    size = sum(len(each.estimates) for each in answers.values())
    for asked, answer in answers.items():
        widths = _widths(answer, ALPHA / size, are_ratios=asked.is_of_ratios)
        found[asked.line] = QuestionForecast(asked.line, widths)
    return tuple(found.values())


def require_answerable(study: Study) -> None:
    """Raise `StudyError` for questions that a study could not answer, with the way out."""
    if study.questions is None:
        return
    from dppca.common.analysis.estimates.release import expected_moments
    from dppca.common.kernel.privacy.release import calibrate

    rows = [min(_ROWS, study.rows_per_owner)] * len(study.owners)
    found = forecast_questions(expected_moments(study, calibrate(study), rows))
    if wrong := [f"{each.question}: {each.refusal}" for each in found if each.refusal is not None]:
        raise StudyError(f"the study cannot answer its questions: {'; '.join(wrong)}")


def _widths(answer: EstimateAnswer, alpha: float, *, are_ratios: bool) -> tuple[ForecastWidth, ...]:
    found = []
    for name, (low, high) in zip(answer.names, answer.conf_int(alpha), strict=True):
        if name == "const" or isnan(low):
            continue
        reach = float(high - low) / 2
        if are_ratios:
            reach = sqrt(high / low) if low > 0 else inf
        found.append(ForecastWidth(name, reach if isfinite(reach) else None, are_ratios))
    return tuple(found)


def suggest_questions(
    names: Names,
) -> Iterator[tuple[str, Callable[[Estimates], tuple[EstimateAnswer, int]]]]:
    """Yield what is asked, and how; an answer comes with the place of the estimate in it."""
    from dppca.common.kernel.schema.attributes import Numeric, Score

    attributes = names.schema.attributes
    numeric = [
        each for each in attributes if isinstance(each, Numeric) and each.score is not Score.LOG
    ]
    numbers = [each.name for each in sorted(numeric, key=lambda own: own.missing is not None)]
    labelled = [
        (each.name, labels)
        for each, labels in zip(attributes, names.labels, strict=True)
        if not isinstance(each, Numeric) and labels
    ]
    shown = {name: f"{name}={labels[len(labels) == 2]}" for name, labels in labelled}
    outcomes = [*numbers, *shown.values()]
    if not outcomes:
        return
    y = outcomes[0]
    if numbers:
        yield f"mean of {y}", lambda asked: (asked.mean(y), 0)
    groups = labelled if numbers else labelled[1:]
    if groups:
        by, labels = groups[0]
        pair = labels[:-3:-1]
        yield (
            f"difference of {y}, {by} {pair[0]} less {pair[1]}",
            lambda asked: (asked.difference(y, by, pair), 0),
        )
    if labelled:
        share = shown[labelled[0][0]]
        yield f"share of {share}", lambda asked: (asked.proportion(share), 0)
    if len(labelled) > 1:
        (row, rows), (column, columns) = labelled[:2]
        yield (
            f"share of {row} {rows[0]}, {column} {columns[0]}",
            lambda asked: (asked.table(row, column), 0),
        )
    complete = [each.name for each in numeric if each.missing is None] + [*shown.values()]
    if len(complete) > 1:
        first, second = complete[:2]
        yield (
            f"correlation of {first} and {second}",
            lambda asked: (asked.correlation(first, second), 0),
        )
    left = groups or [(name, ()) for name in numbers[1:]]
    if left:
        group, labels = max(left, key=lambda each: len(each[1]))
        others = [each for each in outcomes[1:] if each not in (group, shown.get(group))][:_OTHERS]
        whole = group if len(labels) > 2 else shown.get(group, group)
        yield (
            f"coefficient of {_smallest(group, labels)} for {y}"
            + f", with {' and '.join(others)}" * bool(others),
            lambda asked: (asked.ols(y, [whole, *others]), 1),
        )


def _smallest(group: str, labels: tuple[str, ...]) -> str:
    """Return a group of rows in words, or the name of a number without labels."""
    if not labels:
        return group
    return f"one of {len(labels)} labels of {group}" if len(labels) > 2 else f"{group}={labels[1]}"
