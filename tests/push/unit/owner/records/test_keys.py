"""How many rows one person has, by a key in any type and spelling."""

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import DataError
from dppca.owner.records import keys
from dppca.owner.records.file_locations import locate_files
from dppca.owner.records.keys import KeyRows, count_rows_of_keys
from dppca.owner.records.one_hot import OneHotLocation
from dppca.owner.records.table import open_table
from tests.support.examples import examples
from tests.support.latent_rows import make_rows
from tests.support.sites import N_ROWS, OwnerSite, error_of, make_site, make_trained_site
from tests.support.studies import binary_of, make_schema, numeric_of

SCHEMA = make_schema([numeric_of("age", 0, 100), numeric_of("more", 0, 1)], max_rows_per_person=2)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pa.array([1, 2, 2, None]), (2, 1)),
        (pa.array([1.0, 2.0, 2.0, float("nan")]), (2, 1)),
        (pa.array(["7", "7.0 ", " 7", "7.5", "", "NA", "NaN", "."]), (3, 4)),
        (pa.array([b"\xff", b"\xff ", b"\xfe"]), (2, 0)),
        (pa.array([Decimal("1.00"), Decimal("1.00"), None]), (2, 1)),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), (2, 1)),
        (pa.array(["a", "a"], pa.string_view()), (2, 0)),
        (pa.nulls(3), (0, 3)),
        (pa.array([[1], [1]]), (2, 0)),
    ],
)
def test_keys_of_every_type_are_counted_as_labels_are_read(cells: Any, expected: Any) -> None:
    assert count_rows_of_keys([cells]) == KeyRows(*expected)


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 7), st.integers(1, 9))
def test_batches_and_types_change_no_count(found: list[int], size: int, least: int) -> None:
    """By an oracle that counts in a dictionary; each second batch is of texts."""
    batches: list[Any] = []
    for start in range(0, len(found), size):
        batch = pa.array(found[start : start + size], pa.int64())
        batches.append(batch.cast(pa.string()) if len(batches) % 2 else batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_LEAST", least)
        assert count_rows_of_keys(batches).most == max(Counter(found).values(), default=0)


def test_files_of_a_folder_are_counted_together_and_each_needs_the_column(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    pq.write_table(pa.table({"age": [1, 2], "more": [0, 0], "person": [7, 8]}), rows / "1.parquet")
    pq.write_table(
        pa.table({"age": [3, 4], "more": [0, 0], "person": ["7", "7"]}), rows / "2.parquet"
    )
    place = locate_files("rows", folder=tmp_path, data_set="survey")
    found = open_table(place, SCHEMA).count_keys("person", allowed=2)
    assert (found.most, found.missing, found.is_kept) == (3, 0, False)
    pq.write_table(pa.table({"age": [5], "more": [0]}), rows / "3.parquet")
    with pytest.raises(DataError, match="has no column person"):
        open_table(place, SCHEMA).count_keys("person", allowed=2)


def test_one_hot_columns_beside_a_key_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("p,a,b\n1,1,0\n1,0,1\n2,1,0\n")
    files = locate_files("rows.csv", folder=tmp_path, data_set="survey")
    place = OneHotLocation("survey", files=files, one_hot={"sex": {"a": "f", "b": "m"}})
    schema = make_schema(
        [binary_of("sex", ["f", "m"]), numeric_of("p", 0, 9)], max_rows_per_person=1
    )
    assert open_table(place, schema).count_keys("p", allowed=1).most == 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("n_each", [1, 3])
def test_check_counts_the_rows_of_each_person_of_a_file(
    tmp_path: Path, form: str, n_each: int
) -> None:
    site = make_site(tmp_path / "site")
    rows = pa.table({"age": np.arange(12), "person": np.arange(12) // n_each})
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        pa.csv.write_csv(rows, path)
    else:
        pq.write_table(rows, path)
    study = _study_file(tmp_path)
    code, found = site.run(
        "check", "--data", str(path), "--key", "person", "--study-file", str(study)
    )
    assert found["coded_by_rule"]["key"] == {
        "column": "person",
        "allowed": 1,
        "most": n_each,
        "missing": 0,
        "is_kept": n_each == 1,
    }
    assert code == (0 if n_each == 1 else 14)
    policy = (site.folder / "policy.yaml").read_text()
    policy = policy.replace("path: rows.csv", f"path: {path}, key: nobody")
    (site.folder / "policy.yaml").write_text(policy)
    code, message = error_of(site.run("check", "--study-file", str(study)))
    assert (code, "has no column nobody" in message) == (13, True)
    assert error_of(_with_a_key(site, study))[0] == 10


def _with_a_key(site: OwnerSite, study: Path) -> tuple[int, Any]:
    return site.run("check", "--key", "person", "--study-file", str(study))


def _study_file(folder: Path) -> Path:
    path = folder / "study.yaml"
    path.write_text(
        'name: s\nowners: [a, b]\nprivacy: {mechanism: laplace, epsilon: "1.0"}\n'
        "components: {count: 1}\nschema:\n  max_rows_per_person: 1\n  attributes:\n"
        "    - {name: age, type: numeric, lower: 0, upper: 100}\n"
        "    - {name: person, type: numeric, lower: 0, upper: 100}\n"
    )
    return path


def test_a_model_that_may_leave_is_not_made_of_more_rows_of_a_person(tmp_path: Path) -> None:
    rows = make_rows(N_ROWS)
    people = pa.array([1, *range(1, N_ROWS)])
    site, study = make_trained_site(tmp_path, rows=rows.append_column("person", people))
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("path:", "key: person, path:"))
    asked = ("train", study.name, "--target", "ill", "--method", "dp-svm", "--epsilon", "1")
    code, message = error_of(site.run(*asked, "--yes"))
    assert (code, "up to 2 rows have one person" in message) == (19, True)
    assert not site.history.reservations
    policy.write_text(policy.read_text().replace("key: person, ", ""))
    assert site.run(*asked, "--yes")[0] == 0
