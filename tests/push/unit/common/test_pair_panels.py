"""The pair plot shows two tables, each under its own name, and what it is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dppca.common.numerics.comparison import TableCounts, count_cells, list_pairs, variations, worst
from dppca.common.pair_panels import pair_figure
from dppca.common.schema import Column, Schema, encode

NAMES = ("real rows", "synthetic rows")
NOTICE = "site-only: must not leave"


def _schema(n: int) -> Schema:
    kinds: list[dict[str, Any]] = [
        {"type": "categorical", "categories": [f"label {i}" for i in range(15)]},
        {"type": "numeric", "lower": 0, "upper": 1},
        {"type": "binary", "values": ["no", "yes"]},
    ]
    attributes = [{"name": f"a{i}", **kinds[i % 3]} for i in range(n)]
    return Schema.from_document({"max_rows_per_person": 1, "attributes": attributes}, stored=False)


def _counts(schema: Schema, seed: int) -> TableCounts:
    rng = np.random.default_rng(seed)
    columns: list[Column] = [
        rng.beta(1 + seed, 2, 500)
        if attribute.type == "numeric"
        else rng.integers(0, len(attribute.labels), 500).astype(np.int32)
        for attribute in schema.attributes
    ]
    return count_cells(schema, columns, encode(schema, columns))


def _tables(figure: Any) -> dict[str, list[Any]]:
    """Images by the title of their axes."""
    found: dict[str, list[Any]] = {}
    for axes in figure.axes:
        if axes.images:
            found.setdefault(axes.get_title(), []).append(axes.images[0])
    return found


@pytest.mark.parametrize("n", [2, 5, 40])
def test_each_table_is_that_of_the_rows_whose_name_it_bears(n: int) -> None:
    schema = _schema(n)
    ours, theirs = _counts(schema, 1), _counts(schema, 2)
    figure = pair_figure(schema, ours, theirs, NAMES, notice=NOTICE)
    figure.draw_without_rendering()
    shown = worst(variations(schema, ours, theirs)[1], 4)
    images = _tables(figure)
    for name, counts, other in zip(NAMES, (ours, theirs), (theirs, ours), strict=True):
        assert len(images[name]) == len(shown) == min(4, n * (n - 1) // 2)
        for image, pair in zip(images[name], shown, strict=True):
            drawn = np.asarray(image.get_array()).T
            if drawn.shape == counts.pairs[pair].shape:
                np.testing.assert_allclose(drawn, counts.pairs[pair] / 500)
                assert not np.allclose(drawn, other.pairs[pair] / 500)
            else:
                assert 12 in drawn.shape, "the commonest labels"
    for first, second in zip(images[NAMES[0]], images[NAMES[1]], strict=True):
        assert first.norm is second.norm, "one scale of colours"


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_the_heat_map_has_every_pair_and_every_attribute(n: int) -> None:
    schema = _schema(n)
    ours, theirs = _counts(schema, 1), _counts(schema, 2)
    figure = pair_figure(schema, ours, theirs, NAMES, notice=NOTICE)
    assert figure.get_suptitle() == NOTICE
    (title,) = set(_tables(figure)) - set(NAMES)
    (image,) = _tables(figure)[title]
    matrix = np.asarray(image.get_array())
    marginals, pairs = variations(schema, ours, theirs)
    assert np.diag(matrix).tolist() == [each.found for each in marginals]
    for (i, j), each in zip(list_pairs(n), pairs, strict=True):
        assert matrix[i, j] == matrix[j, i] == each.found
    names = [tick.get_text() for tick in image.axes.get_yticklabels()]
    assert names == [attribute.name for attribute in schema.attributes]
    assert len(image.axes.texts) == (n * n if n <= 12 else 0)
