"""How wide intervals will be, for four questions that a schema suggests.

The questions are the mean of its first number (one that rows may lack comes last), the difference
of that number between two groups, a cell of the table of its first two attributes with labels, and
a coefficient of that number on the next ones. Before a study they are put to moments whose values
are spread evenly and without relations
(`dppca.common.analysis.estimates.release.expected_moments`), whose noise is known exactly. Numbers
that fill a small part of their bounds have smaller intervals for means, and wider ones for
coefficients; rare labels, wider ones for groups.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Annotated

from dppca.common.analysis.estimates.answers import EstimateAnswer
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.release import ReconciledMoments
from dppca.common.analysis.estimates.variables import Names
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.attributes import Numeric, Score

ALPHA = 0.05  # of the intervals whose width is told
_REGRESSORS = 3  # in the forecast of a regression: a usual number


@dataclass(frozen=True, slots=True)
class ForecastWidth:
    """Width of one interval."""

    question: Annotated[str, "what would be estimated, in the words of the schema"]
    reach: Annotated[
        float | None, "half the width of its 95 % interval, in its unit; null: not estimable"
    ]

    @property
    def text(self) -> str:
        """Half the width with two digits, or that there will be none."""
        if self.reach is None:
            return "not estimable"
        digits = 1 - floor(log10(self.reach)) if self.reach > 0 else 0
        return f"± {round(self.reach, digits):.{max(0, digits)}f}"


def forecast_widths(moments: ReconciledMoments) -> tuple[ForecastWidth, ...]:
    """Return half the widths of the schema's questions, put to released or expected moments.

    A question that the study's release cannot answer is left out.
    """
    found = []
    for question, ask in _questions(moments.names):
        with suppress(SettingError):
            answer, place = ask(Estimates(moments))
            low, high = answer.conf_int(ALPHA)[place]
            reach = float(high - low) / 2
            found.append(ForecastWidth(question, reach if isfinite(reach) else None))
    return tuple(found)


def _questions(
    names: Names,
) -> Iterator[tuple[str, Callable[[Estimates], tuple[EstimateAnswer, int]]]]:
    """Yield what is asked, and how; an answer comes with the place of the estimate in it."""
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
    shown = [f"{name}={labels[len(labels) == 2]}" for name, labels in labelled]
    outcomes = [*numbers, *shown]
    if not outcomes:
        return
    y, others = outcomes[0], outcomes[1:]
    what = "mean" if numbers else "share"
    yield f"{what} of {y}", lambda asked: ((asked.mean if numbers else asked.proportion)(y), 0)
    groups = labelled if numbers else labelled[1:]
    if groups:
        by, labels = groups[0]
        pair = labels[:-3:-1]
        yield (
            f"difference of {y}, {by} {pair[0]} less {pair[1]}",
            lambda asked: (asked.difference(y, by, pair), 0),
        )
    if len(labelled) > 1:
        (row, rows), (column, columns) = labelled[:2]
        yield (
            f"share of {row} {rows[0]}, {column} {columns[0]}",
            lambda asked: (asked.table(row, column), 0),
        )
    if others:
        x = others[:_REGRESSORS]
        yield (
            f"coefficient of {x[0]} for {y}" + (f", with {' and '.join(x[1:])}" * bool(x[1:])),
            lambda asked: (asked.ols(y, x), 1),
        )
