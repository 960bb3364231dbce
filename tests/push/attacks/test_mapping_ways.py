"""A mapping as a way to other people's rows, to sums without noise, or to a row that counts twice.

A rule is a function of the cells of one row, and the study reads what it gives as it reads a cell
of a file. So whatever the rules, one changed row changes the sums by no more than the sensitivity
for which the noise is drawn, and nobody else's row.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.privacy.release import schema_sensitivity
from dppca.common.kernel.schema import Schema
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_files import parse_mapping
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import Table, moments_of_table, open_table
from tests.support.examples import examples
from tests.support.studies import CENSUS, make_study

SCHEMA = Schema.from_document(
    {
        "max_rows_per_person": 1,
        "attributes": [
            {"name": "hit", "type": "binary", "values": ["no", "yes"], "missing": "no"},
            {"name": "num", "type": "numeric", "lower": -50, "upper": 50, "histogram": True},
            {"name": "lab", "type": "categorical", "categories": ["a", "b"], "unknown": "u"},
        ],
    }
)
HITS: list[Any] = [
    {"column": "person", "recode": {"P-0": "yes"}, "otherwise": "no"},
    {"constant": "yes"},
    {"cases": [{"if": {"x": {"at_least": 1e300}, "person": "P-1"}, "then": {"constant": "yes"}}]},
    {"first_of": [{"column": "s", "recode": {"x": "yes"}}, {"constant": "no"}]},
]
NUMBERS: list[Any] = [
    {"column": "x", "minus": -1e308, "times": 1e308},
    {"column": "x", "over": 1e-308, "plus": 1e308},
    {"column": "x", "times": -1e300, "round": "down"},
    {"column": "person", "recode": {"P-0": 1e300, "P-1": -1e300}, "otherwise": 0},
    {"column": "x", "cut": {"edges": [-1e300, 0, 1e300], "labels": [-1e9, 0.1, 7, 1e9]}},
    {"first_of": [{"column": "x", "times": 3}, {"constant": 1e308}]},
]
LABELS: list[Any] = [
    {"column": "s", "recode": {"x": "a", "y": "b"}, "otherwise": "u"},
    {"column": "person", "recode": {"P-2": "a"}},
    {"constant": "b"},
]
CELL = st.sampled_from(["", "0", "-0.0", "50", "1e308", "-1e308", "1e-320", "nan", "inf", "x", "7"])
ROW = st.tuples(st.sampled_from(["P-0", "P-1", "P-2"]), CELL, CELL)


def mapped(folder: Path, rows: list[tuple[str, str, str]], rules: dict[str, Any]) -> Table:
    lines = ["person,s,x", *map(",".join, rows)]
    (folder / "rows.csv").write_text("\n".join([*lines, ""]))
    (folder / "mapping.yaml").write_text(json.dumps({"attributes": rules}))
    place = local_files(folder / "rows.csv").mapped(MappingPlace(folder / "mapping.yaml"))
    return open_table(place, SCHEMA)


def coded(table: Table) -> Any:
    return np.concatenate(
        [np.column_stack([np.asarray(c, np.float64) for c in each]) for each in table.batches()]
    )


@settings(max_examples=examples(60))
@given(
    st.lists(ROW, min_size=2, max_size=5),
    ROW,
    st.fixed_dictionaries(
        {
            "hit": st.sampled_from(HITS),
            "num": st.sampled_from(NUMBERS),
            "lab": st.sampled_from(LABELS),
        }
    ),
)
def test_no_mapping_lets_one_row_change_more_than_the_noise_is_drawn_for(
    rows: list[tuple[str, str, str]], other: tuple[str, str, str], rules: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = mapped(folder, rows, rules)
        before, cells = moments_of_table(table, SCHEMA), coded(table)
        table = mapped(folder, [other, *rows[1:]], rules)
        after, changed = moments_of_table(table, SCHEMA), coded(table)
    np.testing.assert_array_equal(cells[1:], changed[1:])
    assert before.n_rows == after.n_rows == len(rows)
    change = (after.packed - before.packed).astype(object)
    bound = schema_sensitivity(SCHEMA)
    assert np.abs(change).sum() <= bound.l1
    assert (change**2).sum() <= bound.l2_squared


@pytest.mark.parametrize(
    "rule",
    [
        "{mean_of: [a, b]}",
        "{column: x, rank: true}",
        "{column: x, quantile: 0.5}",
        "{column: x, rows: 5}",
        "{column: x, unless_fewer_than: 5, recode: {a: yes}}",
        "{column: x, weight: 2}",
        "{column: x, times: y}",
        "{column: x, times: '2*2'}",
        "{sql: select max(x) from rows}",
        "{column: x, lookup: /etc/passwd}",
        "{column: x, recode: file:///etc/passwd}",
        "{cases: [{if: {x: {matches: '.*'}}, then: x}]}",
        "{cases: [{if: {x: {above: mean}}, then: x}]}",
        "!!python/object/apply:os.getcwd []",
        "{column: x, recode: &a {a: *a}}",
        "[x, y]",
    ],
)
def test_what_is_no_function_of_one_row_cannot_be_said(rule: str) -> None:
    assert parse_mapping("attributes:\n  num: {column: x, times: 2}\n", "mapping.yaml").attributes
    with pytest.raises(SettingError):
        parse_mapping(f"attributes:\n  num: {rule}\n", "mapping.yaml")


@pytest.mark.parametrize("hit", HITS)
def test_people_are_counted_by_the_sites_own_column_whatever_the_mapping(
    hit: Any, tmp_path: Path
) -> None:
    rows = [("P-0", "x", "1"), ("P-1", "y", "2"), ("P-0", "x", "3"), ("9", "x", "3")]
    table = mapped(tmp_path, rows, {"hit": hit, "num": NUMBERS[3], "lab": LABELS[1]})
    assert _counted(table) == (3, 2)
    document = {"missing": ["9", "P-0"], "attributes": {"hit": hit, "num": "x", "lab": "s"}}
    if hit == HITS[0]:  # its key would be a code for missing, too
        document["missing"] = ["9"]
    (tmp_path / "mapping.yaml").write_text(json.dumps(document))
    place = local_files(tmp_path / "rows.csv").mapped(MappingPlace(tmp_path / "mapping.yaml"))
    assert _counted(open_table(place, SCHEMA)) == (3, 2)


def _counted(table: Table) -> tuple[int, int]:
    """People, and the most rows of one, as a release counts them."""
    with table.latest("person") as rows:
        found = rows.count_people()
        return found.n_people, rows.count_keys("person", allowed=1).most


@pytest.mark.parametrize(
    "rule", ["x", {"constant": "P-7"}, {"column": "person", "recode": {"P-0": "P-7"}}]
)
def test_no_rule_takes_the_place_of_the_key(rule: Any, tmp_path: Path) -> None:
    person = {"name": "person", "type": "categorical", "categories": ["P-7", "b"], "unknown": "u"}
    schema = Schema.from_document(
        {"attributes": [person, *json.loads(SCHEMA.canonical_bytes())["attributes"]]}
    )
    (tmp_path / "rows.csv").write_text("person,s,x,hit,num,lab\nP-0,x,1,no,2,a\n")
    document = {"attributes": {"person": rule}}
    (tmp_path / "mapping.yaml").write_text(json.dumps(document))
    place = local_files(tmp_path / "rows.csv").mapped(MappingPlace(tmp_path / "mapping.yaml"))
    with pytest.raises(SettingError, match="has a rule for person, which is also the key"):
        open_table(place, schema).count_keys("person", allowed=1)


@pytest.mark.parametrize("field", ["mapping", "column", "recode", "otherwise", "first_of"])
def test_a_study_brings_no_mapping(field: str) -> None:
    with pytest.raises(StudyError, match=field):
        make_study([{**CENSUS[0], field: {"a": "b"}}, *CENSUS[1:]])
    with pytest.raises(StudyError, match=field):
        make_study(**{field: {"sex": "hiv"}})
