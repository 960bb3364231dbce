"""A study document of 8 MiB was searched label by label for each split: eight minutes in a command.

Until 2026-11-27. Measured is the processor time that splits add to reading a document, beside the
same splits where there is less to search: the smaller of several measures, as in
`test_quadratic_label`.
"""

from collections.abc import Callable
from typing import Any

import pytest

from dppca.common.kernel.study import study_from_canonical, study_from_mapping
from tests.push.attacks.test_quadratic_label import work
from tests.support.studies import study_document

LABELS = [f"{number:04d}" for number in range(8000)]
MANY = {"name": "many", "type": "categorical", "categories": LABELS}
LOG = {"name": "log", "type": "numeric", "lower": 0, "upper": 1, "score": "log"}
BINARY = {"name": "t", "type": "binary", "values": ["0", "1"]}
N_SPLITS, LEAST_NS = 250, 2_000_000


def _labels(count: int) -> list[dict[str, Any]]:
    return [{**MANY, "categories": LABELS[:count]}]


def _numerics(count: int) -> list[dict[str, Any]]:
    return [{**LOG, "name": f"n{number}"} for number in range(count)]


KINDS: dict[str, tuple[Callable[[int], list[dict[str, Any]]], Callable[[int, int], Any], int]] = {
    "a label each": (_labels, lambda n, k: {"by": "many", "labels": [LABELS[n - 1 - k]]}, 8000),
    "255 labels": (
        _labels,
        lambda n, k: {"by": "many", "labels": [*LABELS[n - 255 : n], LABELS[k]]},
        8000,
    ),
    "an attribute each": (_numerics, lambda n, k: {"by": f"n{n - 1 - k}", "at_most": 0.5}, 4000),
}


def _added(kind: str, size: int) -> float:
    """Return the time that splits add, ns, where there are so many labels or attributes."""
    attributes, split, _ = KINDS[kind]
    times = []
    for splits in (1, N_SPLITS):
        tree = [node for k in range(splits) for node in (split(size, k), {})]
        document = study_document([*attributes(size), BINARY])
        document["schema"] |= {"tables": [{"tree": [*tree, {}], "target": "t"}]}
        raw = study_from_mapping(document).canonical_bytes()
        times.append(work(lambda raw=raw: study_from_canonical(raw)))  # type: ignore[misc]
    return times[1] - times[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_split_takes_no_longer_where_there_is_more_to_search(kind: str) -> None:
    assert _added(kind, KINDS[kind][2]) <= 5 * max(_added(kind, 510), LEAST_NS)


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
