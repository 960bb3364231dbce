"""Answers of a released result on a page: a form without script, a forest plot, a table, CSV.

Each answer is an address, as the form is sent by GET: it changes nothing and costs nothing.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.datastructures import QueryParams
from starlette.responses import Response

from dppca.common.analysis.estimates.answers import Answer
from dppca.common.analysis.estimates.face import Estimates, estimates
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import DppcaError, SettingError
from dppca.common.kernel.schema import ColumnKind

_MOST_LABELS = 60
QUESTIONS = {
    "mean": "mean or shares, for each label of what is ticked",
    "table": "table with what is ticked, and whether they are independent",
    "correlation": "correlations of all",
    "ols": "linear regression on what is ticked",
}


def form_values(published: Published, query: QueryParams) -> dict[str, Any]:
    """Return what the template ``estimates.html`` shows for an address."""
    names = estimates(published).moments.names
    attributes = [each.name for each in names.schema.attributes]
    outcomes = list(attributes)
    for place, labels in enumerate(names.labels):
        if names.kind(place) is ColumnKind.INDICATOR and labels and len(labels) <= _MOST_LABELS:
            outcomes += [f"{attributes[place]}={label}" for label in labels]
    ask, y, x = _asked(query)
    answers: list[Answer] = []
    wrong = ""
    if y:
        try:
            answers = _ask(published, ask, y, x)
        except DppcaError as error:
            wrong = str(error)
    return {
        "questions": QUESTIONS,
        "outcomes": outcomes,
        "attributes": attributes,
        "asked": {"ask": ask, "y": y, "x": x},
        "answers": [asdict(each.document()) for each in answers],
        "wrong": wrong,
        "query": str(query),
    }


def csv_response(published: Published, query: QueryParams, *, name: str) -> Response:
    """Return the answers as a CSV file; raise `SettingError` for a question without an answer."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    ask, y, x = _asked(query)
    head = ("question", "name", "estimate", "bse", "low", "high", "pvalue", "noise", "refusal")
    writer.writerow(head)
    for answer in _ask(published, ask, y, x):
        for each in answer.document().estimates:
            numbers = (each.estimate, each.bse, each.low, each.high, each.pvalue, each.noise)
            refusal = "" if each.refusal is None else each.refusal.text
            writer.writerow((answer.title, each.name, *numbers, refusal))
    headers = {"content-disposition": f'attachment; filename="estimates-{name}.csv"'}
    return Response(sink.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _asked(query: QueryParams) -> tuple[str, str, list[str]]:
    ask = query.get("ask", "mean")
    return (ask if ask in QUESTIONS else "mean"), query.get("y", ""), query.getlist("x")


def _ask(published: Published, ask: str, y: str, x: Sequence[str]) -> list[Answer]:
    asked, others = estimates(published), [other for other in x if other != y]
    if ask != "mean" and not others:
        raise SettingError("tick what it is beside")
    groups: list[str] | list[None] = others or [None]
    answers: Mapping[str, Callable[[], list[Answer]]] = {
        "mean": lambda: [_mean(asked, y, by) for by in groups],
        "table": lambda: [
            answer for x in others for answer in (asked.table(y, x), asked.independence(y, x))
        ],
        "correlation": lambda: [asked.correlation(y, *others)],
        "ols": lambda: [asked.ols(y, others)],
    }
    return answers[ask]()


def _mean(asked: Estimates, y: str, by: str | None) -> Answer:
    place, label = asked.moments.names.find(y)
    if asked.moments.names.kind(place) is not ColumnKind.INDICATOR or label is not None:
        return asked.mean(y, by)
    return asked.proportion(y) if by is None else asked.table(y, by)
