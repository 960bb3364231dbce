"""Answers of a released result for a page: what its form shows, and the same numbers as CSV.

Each answer is an address, as the form is sent by GET: it changes nothing and costs nothing.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from dppca.common.analysis.estimates.answers import EstimateAnswer
from dppca.common.analysis.estimates.face import Estimates, estimates
from dppca.common.analysis.estimates.questions import answer_study
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import DppcaError, SettingError
from dppca.common.kernel.schema import ColumnKind, Numeric

_MOST_LABELS = 60  # in a list to choose from
QUESTIONS = {
    "mean": "mean or shares, for each label of what is ticked",
    "median": "median and quartiles, for each label of what is ticked",
    "sd": "standard deviation, for each label of what is ticked",
    "table": "table with what is ticked, and whether they are independent",
    "correlation": "correlations of all",
    "ols": "linear regression on what is ticked",
    "logit": "adjusted odds ratios, by what is ticked",
    "marginal-effects": "adjusted differences of a share, by what is ticked",
    "summary": "Table 1, for each label of what is ticked",
    "survival": "survival until it, by the number and the group that are ticked",
}


@dataclass(frozen=True, slots=True)
class PageQuestion:
    """A question in an address: one of `QUESTIONS`, what it is about, and what is ticked."""

    ask: str
    y: str
    x: Sequence[str]

    @classmethod
    def read(cls, fields: Sequence[tuple[str, str]]) -> Self:
        """Read the fields of an address; what is no question counts as the first."""
        given = dict(fields)
        ask = given.get("ask", "")
        ticked = [value for name, value in fields if name == "x"]
        return cls(ask if ask in QUESTIONS else "mean", given.get("y", ""), ticked)

    def answers(self, published: Published) -> list[EstimateAnswer]:
        """Answer it; raise `SettingError` if the release has no answer."""
        asked, others = estimates(published), [each for each in self.x if each != self.y]
        if not self.y and published.study.questions:
            return answer_study(asked)
        if self.ask not in ("mean", "median", "sd", "summary") and not others:
            raise SettingError("tick what it is beside")
        groups: list[str] | list[None] = others or [None]
        answers: Mapping[str, Callable[[], list[EstimateAnswer]]] = {
            "mean": lambda: [_mean(asked, self.y, by) for by in groups],
            "median": lambda: [asked.quantile(self.y, by=by) for by in groups],
            "sd": lambda: [asked.sd(self.y, by=by) for by in groups],
            "table": lambda: [
                answer
                for x in others
                for answer in (asked.table(self.y, x), asked.independence(self.y, x))
            ],
            "correlation": lambda: [asked.correlation(self.y, *others)],
            "ols": lambda: [asked.ols(self.y, others)],
            "logit": lambda: [asked.logit(self.y, others)],
            "marginal-effects": lambda: [asked.marginal_effects(self.y, others)],
            "summary": lambda: [asked.summary(by=by) for by in groups],
            "survival": lambda: _survival(asked, self.y, others),
        }
        return answers[self.ask]()


def form_values(published: Published, question: PageQuestion) -> dict[str, Any]:
    """Return what the template ``estimates.html`` shows for an address.

    One that asks nothing shows the answers to the study's own questions.
    """
    names = estimates(published).moments.names
    attributes = [each.name for each in names.schema.attributes]
    outcomes = list(attributes)
    for place, labels in enumerate(names.labels):
        if names.kind(place) is ColumnKind.INDICATOR and labels and len(labels) <= _MOST_LABELS:
            outcomes += [f"{attributes[place]}={label}" for label in labels]
    answers: list[EstimateAnswer] = []
    wrong = ""
    if question.y or published.study.questions:
        try:
            answers = question.answers(published)
        except DppcaError as error:
            wrong = str(error)
    return {
        "questions": QUESTIONS,
        "outcomes": outcomes,
        "attributes": attributes,
        "asked": question,
        "of_study": bool(published.study.questions) and not question.y,
        "answers": [asdict(each.document()) for each in answers],
        "wrong": wrong,
    }


def csv_headers(published: Published) -> dict[str, str]:
    """Return the headers of the file."""
    name = f"estimates-{published.study.name}.csv"
    return {"content-disposition": f'attachment; filename="{name}"', "content-type": "text/csv"}


def csv_text(published: Published, question: PageQuestion) -> str:
    """Return the answers as CSV; raise `SettingError` for a question without an answer."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    head = ("question", "name", "estimate", "bse", "low", "high", "pvalue", "noise", "refusal")
    writer.writerow(head)
    for answer in question.answers(published):
        for each in answer.document().estimates:
            numbers = (each.estimate, each.bse, each.low, each.high, each.pvalue, each.noise)
            refusal = "" if each.refusal is None else each.refusal.text
            writer.writerow((answer.name, each.name, *numbers, refusal))
    return sink.getvalue()


def _survival(asked: Estimates, event: str, others: Sequence[str]) -> list[EstimateAnswer]:
    known = {each.name: each for each in asked.moments.names.schema.attributes}
    times = [each for each in others if isinstance(known.get(each), Numeric)]
    if len(times) != 1:
        raise SettingError("tick one number, the time until the event, and groups if you like")
    groups: list[str] | list[None] = [each for each in others if each not in times] or [None]
    return [asked.survival(times[0], event, by=by) for by in groups]


def _mean(asked: Estimates, y: str, by: str | None) -> EstimateAnswer:
    place, label = asked.moments.names.find(y)
    if asked.moments.names.kind(place) is not ColumnKind.INDICATOR or label is not None:
        return asked.mean(y, by)
    return asked.proportion(y) if by is None else asked.table(y, by)
