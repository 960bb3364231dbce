"""A numeric is drawn in its cells; a value with a cell of its own has a bar of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import StepPatch

from dppca.common.numerics.values import count_values
from dppca.common.panels import draw_panel
from dppca.common.plotting import new_figure
from dppca.common.schema import Schema

NAMES = ("real rows", "synthetic rows")


def _drawn(numeric: dict[str, Any], ours: list[float], theirs: list[float]) -> Any:
    schema = Schema.from_document(
        {
            "max_rows_per_person": 1,
            "attributes": [
                {"name": "x", "type": "numeric", "lower": 0, "upper": 8, **numeric},
                {"name": "b", "type": "binary", "values": [0, 1]},
            ],
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
