"""What of a row a study releases: a schema, and how values are brought to it and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.synthesis.subjects import Subject
from dppca.common.errors import SettingError
from dppca.common.schema import Column, Numeric
from dppca.deploy.simulation.demo import demo_study

PLAIN, SHAPED, TARGETED = "plain", "shaped", "shaped, targets"
GIVEN = ("resolution_bits", "max_rows_per_person")
FORMS = (PLAIN, SHAPED, TARGETED, "8 bins", "16 bins")


@dataclass(frozen=True, slots=True)
class Form:
    """A study's schema for a data set.

    Attributes
    ----------
    document
        Of the schema, without what is `GIVEN` for all.
    bins
        Number of equal bins of each numeric that is coded as a categorical, by its index.
    """

    subject: Subject
    document: Mapping[str, Any]
    bins: Mapping[int, int]

    def forward(self, columns: Sequence[Column]) -> list[Column]:
        """Values as the schema has them."""
        coded = list(columns)
        for index, count in self.bins.items():
            lower, width = self._first_bin(index)
            cells = np.floor((columns[index] - lower) / width)
            coded[index] = np.clip(cells, 0, count - 1).astype(np.int32)
        return coded

    def backward(self, columns: Sequence[Column], rng: np.random.Generator) -> list[Column]:
        """Values as the data set has them; evenly within a bin."""
        values = list(columns)
        for index in self.bins:
            lower, width = self._first_bin(index)
            values[index] = lower + (columns[index] + rng.random(len(columns[index]))) * width
        return values

    def _first_bin(self, index: int) -> tuple[float, float]:
        attribute = self.subject.schema.attributes[index]
        assert isinstance(attribute, Numeric)
        assert attribute.lower is not None
        assert attribute.upper is not None
        return attribute.lower, (attribute.upper - attribute.lower) / self.bins[index]


def find_form(subject: Subject, name: str) -> Form:
    """The form called ``name`` of a data set."""
    if name not in forms_of(subject.name):
        raise SettingError(f"there is no form {name} of {subject.name}")
    if name.endswith("bins"):
        return _binned(int(name.split()[0]), subject)
    if subject.name == "demo" and name == SHAPED:
        own = demo_study().table.model_dump(mode="json")
        return Form(subject, {key: own[key] for key in own if key not in GIVEN}, {})
    document: dict[str, Any] = {"attributes": _attributes(subject)}
    if name != PLAIN:
        shapes = SHAPES[subject.name]
        document["sum_weight"] = 0.5
        document["attributes"] = [
            each | {"histogram": True} | shapes[each["name"]] if each["name"] in shapes else each
            for each in document["attributes"]
        ]
    if name == TARGETED:
        document["targets"] = list({target.attribute: None for target in subject.targets})
    return Form(subject, document, {})


def forms_of(subject: str) -> list[str]:
    """Forms that are tried for a data set, by name."""
    shaped = subject in SHAPES
    asked = {PLAIN: True, SHAPED: shaped or subject == "demo", TARGETED: shaped}
    return [name for name in FORMS if asked.get(name, subject in BINNED)]


def _binned(count: int, subject: Subject) -> Form:
    """Chosen numerics as categoricals of equal bins."""
    attributes, bins = _attributes(subject), {}
    for name in BINNED[subject.name]:
        index = subject.schema.index_of(name)
        bins[index] = count
        attributes[index] = {
            "name": name,
            "type": "categorical",
            "categories": list(range(bins[index])),
        }
    return Form(subject, {"attributes": attributes}, bins)


def _attributes(subject: Subject) -> list[dict[str, Any]]:
    named = ("name", "type", "lower", "upper", "values", "categories")
    documents = [each.model_dump(mode="json") for each in subject.schema.attributes]
    return [{name: each[name] for name in named if name in each} for each in documents]


def _about(*answers: float) -> dict[str, Any]:
    """Narrow cells about the answers that a form offers, and wide ones between them."""
    lower, *inner, upper = answers
    about = [edge for each in inner for edge in (each - 0.01, each + 0.01)]
    return {"bins": [lower + 0.01, *about, upper - 0.01]}


_WHOLE = {"integer": True}
_MONEY = {"score": "log", "integer": True, "zero": "separate"}
SHAPES: dict[str, dict[str, dict[str, Any]]] = {
    "fair": {
        "rate_marriage": _WHOLE,
        "age": _about(17.5, 22, 27, 32, 37, 42),
        "yrs_married": _about(0.5, 2.5, 6, 9, 13, 16.5, 23),
        "children": _about(0, 1, 2, 3, 4, 5.5),
        "religious": _WHOLE,
        "educ": _WHOLE,
    },
    "adult": {
        "age": _WHOLE,
        "fnlwgt": {},
        "education_num": _WHOLE,
        "capital_gain": _MONEY,
        "capital_loss": _MONEY,
        "hours_per_week": _WHOLE,
    },
    "diamonds": {
        **{name: {} for name in ("carat", "depth", "table", "x", "y", "z")},
        "price": {"score": "log"},
    },
}
"""Histograms and scores of numerics, from what is known of each before a row is read."""
BINNED: dict[str, tuple[str, ...]] = {
    "adult": ("age", "education_num", "hours_per_week"),
    "fair": ("rate_marriage", "age", "yrs_married"),
    "diamonds": ("carat", "price", "depth", "table"),
}
"""Numerics whose bins are tried in products."""
