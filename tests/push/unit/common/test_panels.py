"""A numeric is drawn in its cells; a value with a cell of its own has a bar of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import StepPatch

from dppca.common.numerics.values import count_values
from dppca.common.panels import dot_rows, draw_panel, marginals_figure
from dppca.common.plotting import new_figure
from dppca.common.schema import Schema
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

NAMES = ("real rows", "synthetic rows")


def _drawn(numeric: dict[str, Any], ours: list[float], theirs: list[float]) -> Any:
    schema = Schema.from_document(
        {
            "max_rows_per_person": 1,
            "attributes": [numeric_of("x", 0, 8, **numeric), binary_of("b", [0, 1])],
        },
        stored=False,
    )
    counts = [
        count_values(schema, [np.array(values), np.zeros(len(values), np.int32)])[0]
        for values in (ours, theirs)
    ]
    axes = new_figure(4, 3).subplots()
    draw_panel(axes, schema, 0, counts[0], counts[1], NAMES)
    return axes


def test_both_humps_and_both_tables_are_drawn() -> None:
    axes = _drawn({}, [1.0] * 30 + [7.0] * 70, [4.0] * 10)
    first, second = (patch.get_data().values for patch in axes.patches)
    assert len(first) == len(second) == 40
    assert {int(i): float(first[i]) for i in np.flatnonzero(first)} == {5: 0.3, 35: 0.7}
    assert np.flatnonzero(second).tolist() == [20]
    assert [patch.get_label() for patch in axes.patches] == list(NAMES)


def test_ticks_are_values_at_the_ends_of_cells() -> None:
    axes = _drawn({"bins": [1, 4]}, [0.5, 2], [5])
    ticks = dict(zip(axes.get_xticks(), axes.get_xticklabels(), strict=True))
    assert {at: tick.get_text() for at, tick in ticks.items()} == {0: "0", 1: "1", 2: "4", 3: "8"}
    axes = _drawn({"integer": True}, [0, 2], [5])
    ticks = dict(zip(axes.get_xticks(), axes.get_xticklabels(), strict=True))
    assert {at - 0.5: float(tick.get_text()) for at, tick in ticks.items()} == {
        n: n for n in range(0, 9, 2)
    }


def test_whole_numbers_that_do_not_divide_evenly_make_no_heaps() -> None:
    ages = list(range(106)) * 3
    axes = _drawn({"upper": 105, "integer": True}, ages, ages)
    for patch in axes.patches:
        assert np.allclose(patch.get_data().values, 1 / 40)
    assert "whole numbers" in axes.get_xlabel()
    assert not _drawn({"upper": 79, "integer": True}, ages[:80], [3.0]).get_xlabel()


def test_a_spike_has_a_bar_of_its_own_and_the_rest_can_still_be_seen() -> None:
    spiky = {"zero": "separate", "histogram": True}
    rest = [0.1 + 0.19 * i for i in range(40)]
    axes = _drawn(spiky, [0.0] * 60 + rest, [0.0] * 20 + rest)
    heights = [container[0].get_height() for container in axes.containers]
    assert heights == [0.6, 20 / 60]
    assert [text.get_text() for text in axes.texts] == ["= 0: 60%, 33%"]
    highest = max(
        patch.get_data().values.max() for patch in axes.patches if isinstance(patch, StepPatch)
    )
    assert 2 * highest > axes.get_ylim()[1] > highest > 0


def test_a_spike_of_the_size_of_the_others_is_drawn_in_full() -> None:
    axes = _drawn({"zero": "separate", "histogram": True}, [0.0, 1.0], [0.0, 2.0, 3.0])
    assert [text.get_text().strip() for text in axes.texts] == ["= 0"]
    assert axes.get_ylim()[1] > 0.5


LABELS: list[dict[str, Any]] = [
    numeric_of("x", 0, 8),
    binary_of("ill", ["no", "yes"]),
    binary_of("smokes", ["no", "a label that is far too long"]),
    categorical_of("ward", ["a category with a long name", "b", "c"]),
]


def _counts(schema: Schema, codes: list[int]) -> Any:
    columns = [
        np.array(codes, np.float64 if attribute.type == "numeric" else np.int32)
        for attribute in schema.attributes
    ]
    return count_values(schema, columns)


def test_binaries_stand_together_and_others_alone() -> None:
    schema = make_schema(LABELS)
    ours, theirs = _counts(schema, [0, 1, 1, 1]), _counts(schema, [0, 0, 0, 1])
    figure = marginals_figure(schema, ours, theirs, NAMES, drawn=range(4))
    assert [axes.get_title() for axes in figure.axes] == ["x", "ward", "binaries"]
    dots = figure.axes[-1]
    real, synthetic = dots.get_lines()
    assert list(real.get_xdata()) == [0.75, 0.75]
    assert list(synthetic.get_xdata()) == [0.25, 0.25]
    names = [tick.get_text() for tick in dots.get_yticklabels()]
    assert names == ["ill = yes", "smokes = a label that …"]
    assert synthetic.get_markerfacecolor() == "none"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(NAMES)


def test_one_binary_alone_keeps_its_bars() -> None:
    schema = make_schema(LABELS)
    counts = _counts(schema, [0, 1])
    figure = marginals_figure(schema, counts, counts, NAMES, drawn=[1, 3])
    assert [axes.get_title() for axes in figure.axes] == ["ill", "ward"]


def test_binaries_alone_make_a_figure() -> None:
    schema = make_schema(LABELS)
    counts = _counts(schema, [0, 1])
    figure = marginals_figure(schema, counts, counts, NAMES, drawn=[1, 2])
    assert [axes.get_title() for axes in figure.axes] == ["binaries"]
    assert figure.legends


def test_what_is_not_known_of_a_binary_has_a_row_of_its_own() -> None:
    schema = make_schema(LABELS)
    ours, theirs = _counts(schema, [0, 1, -1, -1]), _counts(schema, [0, 1])
    assert dot_rows(schema, ours, theirs, [1]) == {
        "ill = yes": (0.25, 0.5),
        "ill (not known)": (0.5, 0.0),
    }


def test_a_label_that_is_cut_ends_in_an_ellipsis() -> None:
    schema = make_schema(LABELS)
    counts = _counts(schema, [0, 1])
    axes = new_figure(4, 3).subplots()
    draw_panel(axes, schema, 3, counts[3], counts[3], NAMES)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a category wi…", "b", "c"]
