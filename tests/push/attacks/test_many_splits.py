"""A study document of 8 MiB was searched label by label for each split: eight minutes in a command.

Until 2026-11-27. Counted is what splits add to reading: the lines of Python that run, and the
labels and attributes that a search looks at. Clocks would be wrong on a busy machine.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any, SupportsIndex

import pytest

from dppca.common.kernel.schema.document import Schema
from dppca.common.kernel.schema.partitions import make_partition
from dppca.common.kernel.schema.splits import code_thresholds
from dppca.common.kernel.study import study_from_canonical, study_from_mapping
from tests.support.studies import study_document

LABELS = [f"{number:04d}" for number in range(1020)]
MANY = {"name": "many", "type": "categorical", "categories": LABELS}
LOG = {"name": "log", "type": "numeric", "lower": 0, "upper": 1, "score": "log"}
BINARY = {"name": "t", "type": "binary", "values": ["0", "1"]}
LEAST, N_SPLITS = 50, 150


def _labels(count: int) -> list[dict[str, Any]]:
    return [{**MANY, "categories": LABELS[:count]}]


def _numerics(count: int) -> list[dict[str, Any]]:
    return [{**LOG, "name": f"n{number}"} for number in range(count)]


KINDS: dict[
    str, tuple[Callable[[int], list[dict[str, Any]]], Callable[[int, int], Any], tuple[int, int]]
] = {
    "a label each": (
        _labels,
        lambda n, k: {"by": "many", "labels": [LABELS[n - 1 - k]]},
        (510, 1020),
    ),
    "255 labels": (
        _labels,
        lambda n, k: {"by": "many", "labels": [*LABELS[n - 255 : n], LABELS[k]]},
        (510, 1020),
    ),
    "an attribute each": (
        _numerics,
        lambda n, k: {"by": f"n{n - 1 - k}", "at_most": 0.5},
        (160, 320),
    ),
}


class Searched(tuple[Any, ...]):
    """A tuple that counts the entries which anybody looks at."""

    __slots__ = ()
    looks = 0

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            Searched.looks += 1
            yield each

    def index(self, value: Any, *between: SupportsIndex) -> int:
        Searched.looks += len(self)
        return super().index(value, *between)

    def count(self, value: Any) -> int:
        Searched.looks += len(self)
        return super().count(value)

    def __contains__(self, value: object) -> bool:
        Searched.looks += len(self)
        return super().__contains__(value)

    def __add__(self, other: Any) -> Any:
        Searched.looks += len(self)
        return super().__add__(other)


def _document(kind: str, size: int, splits: int) -> dict[str, Any]:
    attributes, split, _ = KINDS[kind]
    tree = [node for k in range(splits) for node in (split(size, k), {})]
    document = study_document([*attributes(size), BINARY])
    document["schema"] |= {"tables": [{"tree": [*tree, {}], "target": "t"}]}
    return document


def _lines(task: Callable[[], object]) -> int:
    """Lines of Python that run, once for each turn of a loop."""
    found = 0

    def trace(_frame: FrameType, event: str, _of: Any) -> Any:
        nonlocal found
        found += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        task()
    finally:
        sys.settrace(before)
    return found


def _looks(schema: Schema) -> int:
    """Labels and attributes that are looked at when the tree is read."""
    counted = [
        each.model_copy(update={"categories": Searched(each.labels)})
        if each.type == "categorical"
        else each
        for each in schema.attributes
    ]
    public = replace(schema.public, attributes=Searched(counted))
    Searched.looks = 0
    code_thresholds(schema.tables[0].tree, public)
    make_partition(schema.tables[0], public)
    return Searched.looks


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_split_runs_no_more_lines_where_there_is_more_to_search(kind: str) -> None:
    added = []
    for size in KINDS[kind][2]:
        raws = [
            study_from_mapping(_document(kind, size, splits)).canonical_bytes()
            for splits in (LEAST, N_SPLITS)
        ]
        few, many = (_lines(lambda raw=raw: study_from_canonical(raw)) for raw in raws)  # type: ignore[misc]
        added.append(many - few)
    assert 0 < added[1] <= 1.02 * added[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_split_looks_at_no_label_or_attribute_but_its_own(kind: str) -> None:
    for size in KINDS[kind][2]:
        few, many = (
            _looks(study_from_mapping(_document(kind, size, splits)).table)
            for splits in (LEAST, N_SPLITS)
        )
        assert size <= few == many <= 4 * size


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"by": "many", "labels": ["no"]}, "many has no label no"),
        ({"by": "many", "labels": LABELS[:3]}, "no row can reach"),
        ({"by": "log", "at_most": 2.0}, "at_most is outside"),
        ({"by": "log", "at_most": 0.9}, "no row can reach"),
        ({"by": "other", "at_most": 0.5}, "no attribute is called other"),
        ({"by": "many", "at_most": 0.5}, "many splits by labels"),
        ({"by": "t", "labels": ["0"]}, "the target cannot split"),
    ],
)
def test_a_split_at_fault_is_still_named(split: dict[str, Any], message: str) -> None:
    tree = [
        {"by": "many", "labels": LABELS[:1]}, {},
        {"by": "many", "labels": LABELS[1:3]}, {},
        {"by": "log", "at_most": 0.5}, split, {}, {}, {},
    ]  # fmt: skip
    document = study_document([MANY, LOG, BINARY])
    document["schema"] |= {"tables": [{"tree": tree, "target": "t"}], "resolution_bits": 10}
    with pytest.raises(Exception, match=message) as found:
        study_from_mapping(document)
    assert "node 6" in str(found.value)
