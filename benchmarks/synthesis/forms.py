"""What of a row a study releases: its schema."""

from collections.abc import Mapping
from typing import Any

from benchmarks.releases import plain_attributes
from benchmarks.synthesis.subjects import Subject, demo_by_row
from dppca.common.kernel.errors import SettingError

PLAIN, SHAPED, TARGETED = "plain", "shaped", "shaped, targets"
GIVEN = ("resolution_bits", "max_rows_per_person")
BINS_TARGETED = "shaped, targets, 40 bins"
BINS = {"8 bins": 8, "16 bins": 16, BINS_TARGETED: 40}
"""Forms with bins of some numerics in products: as their shape says, or equal ones, as many."""
TREES = "shaped, targets, random trees"
"""Counts of the leaves of trees of the public schema beside them."""
FORMS = (PLAIN, SHAPED, TARGETED, TREES, *BINS)
_RANDOM_TREES = {"count": 20, "leaves": 128, "seed": 0}


def find_form(subject: Subject, name: str) -> Mapping[str, Any]:
    """The schema of the form called ``name`` of a data set, without what is `GIVEN` for all."""
    if name not in list_forms(subject.name):
        raise SettingError(f"there is no form {name} of {subject.name}")
    if subject.name == "demo" and name == SHAPED:
        own = demo_by_row().table.model_dump(mode="json")
        return {key: own[key] for key in own if key not in GIVEN}
    attributes = plain_attributes(subject.schema)
    document: dict[str, Any] = {"attributes": attributes}
    if name in (SHAPED, TARGETED, TREES, BINS_TARGETED):
        document["sum_weight"] = 0.5
        for each in attributes:
            if each["name"] in SHAPES[subject.name]:
                each.update({"histogram": True} | SHAPES[subject.name][each["name"]])
    if name in (TARGETED, TREES, BINS_TARGETED):
        document["targets"] = list({target.attribute: None for target in subject.targets})
    if name == TREES:
        document["random_trees"] = {**_RANDOM_TREES, "target": subject.targets[0].attribute}
    if name in BINS:
        for each in attributes:
            if each["name"] in BINNED[subject.name]:
                each.pop("histogram", None)
                each.update({"bins": each.get("bins", BINS[name]), "products": "bins"})
    return document


def list_forms(subject: str) -> list[str]:
    """Forms that are tried for a data set, by name."""
    shaped, binned = subject in SHAPES, subject in BINNED
    asked = {PLAIN: True, SHAPED: shaped or subject == "demo", TARGETED: shaped}
    asked[TREES] = subject in ("adult", "rule")
    return [name for name in FORMS if asked.get(name, binned)]


def _about(*answers: float) -> dict[str, Any]:
    """Narrow cells about the answers that a form offers, and wide ones between them."""
    lower, *inner, upper = answers
    about = [edge for each in inner for edge in (each - 0.01, each + 0.01)]
    return {"bins": [lower + 0.01, *about, upper - 0.01]}


_WHOLE = {"integer": True}
_MONEY = {"score": "log", "integer": True, "spikes": [0]}
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
    "rule": {
        "age": _WHOLE,
        "children": _WHOLE,
        "income": {"score": "log"},
        "debts": {"score": "log"},
    },
    "diamonds": {
        **{name: {} for name in ("carat", "depth", "table", "x", "y", "z")},
        "price": {"score": "log"},
    },
}
"""Histograms and scores of numerics, from what is known of each before a row is read."""
BINNED: dict[str, tuple[str, ...]] = {
    "adult": ("age", "education_num", "hours_per_week"),
    "rule": ("age", "income", "debts"),
    "fair": ("rate_marriage", "age", "yrs_married"),
    "diamonds": ("carat", "price", "depth", "table"),
}
"""Numerics whose bins are tried in products."""
