"""What the cells of an attribute are called, and what each shows."""

from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.values import ValueCounts
from dppca.common.kernel.schema import Schema
from dppca.common.shell.panels import Panel, make_panel

OTHER = {"name": "other", "type": "numeric", "lower": 0, "upper": 1}


def _shown(attribute: dict[str, Any], cells: list[int], **outside: int) -> Panel:
    schema = Schema.from_document({"attributes": [attribute, OTHER]})
    counts = ValueCounts(np.array(cells), **{"below": 0, "above": 0, "unknown": 0, **outside})
    return make_panel(schema, 0, counts, counts)


def _cells(attribute: dict[str, Any]) -> int:
    found = Schema.from_document({"attributes": [attribute, OTHER]}).cells[0]
    return 32 if found is None else found.n_cells


@pytest.mark.parametrize(
    ("attribute", "first", "last"),
    [
        ({"type": "numeric", "lower": 1, "upper": 4, "integer": True}, "1", "4"),
        (
            {"type": "date", "lower": "2020-01-30", "upper": "2020-02-02"},
            "2020-01-30",
            "2020-02-02",
        ),
        ({"type": "ordinal", "levels": ["low", "middle", "high"]}, "low", "high"),
    ],
)
def test_a_cell_of_one_whole_number_date_or_level_has_its_name(
    attribute: dict[str, Any], first: str, last: str
) -> None:
    named = {"name": "x", **attribute}
    panel = _shown(named, [1] * _cells(named))
    names = [cell.name for cell in panel.cells]
    assert (names[0], names[-1]) == (first, last)
    assert len({*names}) == len(names)


def test_what_no_cell_stands_for_has_a_bar_of_its_own() -> None:
    attribute = {"name": "x", "type": "binary", "values": ["no", "yes"]}
    panel = _shown(attribute, [6, 2], unknown=2)
    shares = {cell.name: cell.ours for cell in panel.cells}
    assert shares == {"no": 0.6, "yes": 0.2, "(not known)": 0.2}
