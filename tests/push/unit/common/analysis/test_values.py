"""What is called real is what the file holds, not what coding makes of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.analysis.comparison import count_cells
from dppca.common.analysis.values import count_values, value_range
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import MISSING, UNKNOWN, Column, Schema, encode
from dppca.common.kernel.schema.cells import N_BINS
from dppca.common.kernel.schema.texts import INFINITE, NOT_A_NUMBER
from dppca.common.kernel.study import Study
from dppca.common.shell.panels import UNKNOWN as NOT_KNOWN
from dppca.common.shell.panels import make_panel
from dppca.deploy.simulation.experiment import _require_two_labels, read_columns
from dppca.deploy.simulation.holdings import Holdings
from dppca.owner.records.table import open_table
from dppca.owner.synthesis.report.comparison import CodedTable, Quality, code_table, compare
from dppca.owner.synthesis.report.page import Compared, marginal_panels, quality_page
from tests.support.examples import examples
from tests.support.studies import CENSUS, make_study

STUDY: Study = make_study()
SCHEMA: Schema = STUDY.table


def _columns(*rows: tuple[float, int, int]) -> list[Column]:
    age, sex, work = zip(*rows, strict=True)
    return [np.array(age, float), np.array(sex, np.int32), np.array(work, np.int32)]


CLEAN = _columns((17, 0, 0), (50, 1, 1), (90, 1, 2), (50, 0, 1))
FAULTY = _columns(
    *((20, 0, UNKNOWN),) * 3, (30, 1, 0), (np.nan, MISSING, 1), (200, 0, MISSING), (-5, 1, 2)
)


def _heights(schema: Schema, columns: list[Column], name: str) -> dict[str, float]:
    """Bars of the real rows by name, without those of a numeric's intervals."""
    index = schema.find_index(name)
    counts = count_values(schema, columns)[index]
    panel = make_panel(schema, index, counts, counts)
    return {
        cell.name: cell.ours for cell in panel.cells if not panel.numeric or cell.name[0] == "("
    }


@pytest.mark.parametrize(
    ("columns", "name", "sevenths"),
    [
        (FAULTY, "work", {"private": 1, "state": 1, "other": 1, NOT_KNOWN: 4}),
        (FAULTY, "age", {"(below)": 1, "(above)": 1, NOT_KNOWN: 1}),
        (CLEAN, "age", {}),
    ],
)
def test_what_coding_mends_has_bars_of_its_own(
    columns: list[Column], name: str, sevenths: dict[str, int]
) -> None:
    heights = _heights(SCHEMA, columns, name)
    assert heights == {label: pytest.approx(n / 7) for label, n in sevenths.items()}
    assert set(_heights(SCHEMA, CLEAN, "work")) == {"private", "state", "other"}


def test_a_label_of_its_own_is_where_unknown_values_stand() -> None:
    work = {**CENSUS[2], "unknown": "?"}
    schema = Schema.model_validate({"max_rows_per_person": 1, "attributes": [*CENSUS[:2], work]})
    heights = _heights(schema, FAULTY, "work")
    assert heights["?"] == pytest.approx(4 / 7)
    assert NOT_KNOWN not in heights


ROWS = st.lists(
    st.tuples(
        st.one_of(st.floats(17, 90), st.sampled_from([16.0, 91.0, np.nan, INFINITE, NOT_A_NUMBER])),
        st.sampled_from([0, 1, UNKNOWN, MISSING]),
        st.sampled_from([0, 1, 2, UNKNOWN, MISSING]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=examples(100))
@given(rows=ROWS, cut=st.integers(0, 30))
def test_every_row_is_counted_once_whatever_the_batches(
    rows: list[tuple[float, int, int]], cut: int
) -> None:
    columns = _columns(*rows)
    whole = count_values(SCHEMA, columns)
    first = count_values(SCHEMA, [column[:cut] for column in columns])
    second = count_values(SCHEMA, [column[cut:] for column in columns])
    for all_of_it, one, other in zip(whole, first, second, strict=True):
        merged = one.merge(other)
        assert all_of_it.n_rows == merged.n_rows == len(rows)
        assert np.array_equal(all_of_it.cells, merged.cells)
        assert all_of_it.unknown == merged.unknown


def test_values_that_need_no_rule_are_counted_as_their_codes() -> None:
    coded = count_cells(SCHEMA, CLEAN, encode(SCHEMA, CLEAN))
    for index, (values, codes) in enumerate(
        zip(count_values(SCHEMA, CLEAN), coded.marginals, strict=True)
    ):
        assert np.array_equal(values.cells.reshape(len(codes), -1).sum(axis=1), codes), index
        assert (values.below, values.above, values.unknown) == (0, 0, 0)


def test_unit_ball_attributes_are_counted_around_their_centre() -> None:
    attributes = [{"name": n, "type": "numeric", "centre": 10, "scale": 2} for n in ("x", "y")]
    schema = Schema.from_document({"row_norm": {}, "attributes": attributes})
    counts = count_values(schema, [np.array([8.0, 12.0, 13.0]), np.zeros(3)])
    assert value_range(schema.attributes[0]) == (8, 12)  # type: ignore[arg-type]
    assert (counts[0].cells.sum(), counts[0].above, len(counts[0].cells)) == (2, 1, N_BINS)


def test_a_numeric_is_counted_in_its_cells_and_beside_them_what_lies_outside() -> None:
    visits = {"name": "visits", "type": "numeric", "lower": 0, "upper": 9, "integer": True}
    cost = {"name": "cost", "type": "numeric", "lower": 0, "upper": 8, "bins": [1, 4]}
    spike = {**cost, "name": "spike", "spikes": [0], "histogram": True}
    schema = Schema.from_document({"max_rows_per_person": 1, "attributes": [visits, cost, spike]})
    values = np.array([0.0, 0.0, 0.5, 1.0, 3.9, 8.0, 9.0, -1.0, np.nan])
    counts = count_values(schema, [values, values, values])
    assert counts[0].cells.tolist() == [2, 2, 0, 0, 1, 0, 0, 0, 1, 1]
    assert counts[1].cells.tolist() == [3, 2, 1]
    assert counts[2].cells.tolist() == [1, 2, 1, 2]
    assert [(each.below, each.above, each.unknown) for each in counts] == [
        (1, 0, 1),
        (1, 1, 1),
        (1, 1, 1),
    ]


def _coded(folder: Path, text: str) -> CodedTable:
    path = folder / f"{abs(hash(text))}.csv"
    path.write_text("age,sex,work\n" + text)
    return code_table(open_table(path, SCHEMA), np.random.default_rng(1))


def _compare(real: CodedTable, synthetic: CodedTable) -> Quality:
    return compare(
        SCHEMA,
        real,
        synthetic,
        targets=("sex", "work"),
        coded=None,
        released_mean=None,
        rng=np.random.default_rng(3),
    )


def test_a_page_draws_real_values_and_lists_what_was_coded_by_rule(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines = [
        f"{rng.integers(20, 80)},{rng.choice(['Female', 'Male'])},"
        f"{rng.choice(['private', 'state', 'other'])}\n"
        for _ in range(120)
    ]
    synthetic = _coded(tmp_path, "".join(lines))
    real = _coded(tmp_path, "".join(lines) + "30,Male,farm\n" * 40 + "30,,private\n" * 20)
    assert real.values[2].unknown == 40
    assert real.values[2].cells.sum() == 140
    assert real.counts.marginals[2][0] == real.values[2].cells[0] + 40
    quality = _compare(real, synthetic)
    # 180 rows, of which 20 have no sex and 40 no work: the majority is of the others.
    shares = real.values[1].cells / 160, real.values[2].cells / 140
    assert [each.majority for each in quality.accuracies] == [
        pytest.approx(share.max()) for share in shares
    ]
    panels = marginal_panels(SCHEMA, real, synthetic, quality)
    compared = Compared(quality, real.faults, panels, "d", "x")
    page = quality_page(compared, stated=Stated(), face=[("Study", "s")], pictures={})
    row = (
        '<td><b>work</b></td><td data-name="what is wrong">unknown</td>'
        '<td class="number" data-name="values">40</td>'
        '<td class="number" data-name="of the rows">22.2%</td>'
    )
    assert row in page
    assert ">private, the first label</td>" in page
    # Unknown values are drawn as unknown, and not as what coding makes of them.
    shown = {cell.name: cell.ours for cell in panels[2].cells}
    assert shown["(not known)"] == pytest.approx(40 / 180)


def test_a_target_that_is_hardly_ever_known_is_left_out(tmp_path: Path) -> None:
    rows = "30,Male,private\n40,Female,state\n" * 30
    real = _coded(tmp_path, rows.replace("Female", "?").replace("Male", "?"))
    quality = _compare(real, _coded(tmp_path, rows))
    assert [each.target for each in quality.accuracies] == ["work"]


def test_a_simulation_without_a_known_target_to_test_on_is_refused() -> None:
    work = ["private", "state"] * 5 + ["farm"] * 3
    table = pa.table({"age": [30] * 13, "sex": ["Male"] * 13, "work": work})
    held_out = np.arange(10, 13)
    parts = {"a": table.slice(0, 5), "b": table.slice(5, 5)}
    held = Holdings(parts, table.take(held_out), Path("rows.csv"))
    with pytest.raises(SettingError, match="no row that is held out has a label of work"):
        _require_two_labels(SCHEMA, "work", held, test=None)
    known: Any = read_columns(SCHEMA, table)[2]
    assert (known[held_out] == UNKNOWN).all()
