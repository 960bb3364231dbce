"""What of a row a study releases: a schema, and how values are brought to it and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.synthesis.subjects import Subject
from dppca.common.errors import SettingError
from dppca.common.schema import Column, Numeric

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Form:
    """A study's schema for a data set.

    Attributes
    ----------
    document
        Of the schema, without ``resolution_bits`` and ``max_rows_per_person``.
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
    if name not in FORMS:
        raise SettingError(f"there is no form {name}; there are {', '.join(FORMS)}")
    return FORMS[name](subject)


def _plain(subject: Subject) -> Form:
    return Form(subject, {"attributes": _attributes(subject)}, {})


def _binned(count: int, subject: Subject) -> Form:
    """Chosen numerics as categoricals of equal bins."""
    attributes, bins = _attributes(subject), {}
    for name in BINNED[subject.name]:
        index = subject.schema.index_of(name)
        bins[index] = min(count, 16 if name == "education_num" else count)
        attributes[index] = {
            "name": name,
            "type": "categorical",
            "categories": list(range(bins[index])),
        }
    return Form(subject, {"attributes": attributes}, bins)


BINNED: dict[str, tuple[str, ...]] = {
    "adult": ("age", "education_num", "hours_per_week"),
    "fair": ("rate_marriage", "age", "yrs_married"),
    "diamonds": ("carat", "price", "depth", "table"),
}
"""Numerics whose bins are tried in products."""


def _attributes(subject: Subject) -> list[dict[str, Any]]:
    named = ("name", "type", "lower", "upper", "values", "categories")
    documents = [each.model_dump(mode="json") for each in subject.schema.attributes]
    return [{name: each[name] for name in named if name in each} for each in documents]


FORMS: dict[str, Callable[[Subject], Form]] = {
    PLAIN: _plain,
    "8 bins": lambda subject: _binned(8, subject),
    "16 bins": lambda subject: _binned(16, subject),
}


def forms_of(subject: str) -> list[str]:
    """Forms that are tried for a data set, by name."""
    return [name for name in FORMS if not name.endswith("bins") or subject in BINNED]
