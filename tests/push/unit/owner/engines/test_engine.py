"""One interface: this process, or workers that answer for parts."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.moments.people import PeopleMoments
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.units import NeighbourRelation
from dppca.owner.engines import cluster as module
from dppca.owner.engines.engine import LocalEngine
from dppca.owner.engines.parts import Part, make_manifest
from dppca.owner.engines.selection import open_engine
from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.faults import KeyReport
from dppca.owner.records.file_locations import local_files, locate_files
from dppca.owner.records.lakes import DeltaLocation
from dppca.owner.records.table import Table, moments_of_table, open_table
from tests.support.engines import (
    MIXED,
    InProcess,
    mixed_rows,
    people_schema,
    rows_of_people,
    write_files,
)
from tests.support.object_store import object_store, upload

KEYED = MIXED.model_copy(update={"max_rows_per_person": 2})


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.make_manifest.__kwdefaults__, "least_bytes", 1)


class Declared:
    """An entry point of an engine."""

    def load(self) -> Callable[[], AbstractContextManager[InProcess]]:
        return lambda: nullcontext(InProcess(seed=1))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return open_table(local_files(write_files(mixed_rows(1000), tmp_path / "rows", 6)), MIXED)


@pytest.mark.parametrize("schema", [KEYED, people_schema(1)], ids=["rows", "people"])
def test_no_row_is_added_up_without_a_worker_where_the_number_is_secret(
    schema: Schema, tmp_path: Path
) -> None:
    """Other studies refuse: their number of rows would be 0 for all to see."""
    folder, secret = tmp_path / "rows", NeighbourRelation.ADDED
    write_files(rows_of_people(3).slice(0, 0), folder, 2)
    public, schema = schema, schema.model_copy(update={"neighbours": secret})
    cluster = InProcess()
    for engine in (LocalEngine(), cluster):
        with open_table(local_files(folder), schema).latest("person") as latest:
            tally = FaultCounts(schema)
            found = engine.sum_table(latest, tally=tally, progress=lambda _: None)
            assert (found.n_rows, found.packed.any()) == (0, False)
            assert tally.report(latest).key is not None
    assert cluster.seen == []
    with pytest.raises(DataError, match="has columns but no rows"):
        open_table(local_files(folder), public)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_cluster_gives_the_integers_and_counts_of_this_process(
    table: Table, threads: int
) -> None:
    cluster = InProcess(threads=threads, seed=threads, twice=True)
    found, expected = FaultCounts(MIXED), FaultCounts(MIXED)
    rows: list[int] = []
    ours = LocalEngine().sum_table(table, tally=expected, progress=lambda _: None)
    theirs = cluster.sum_table(table, tally=found, progress=rows.append)
    np.testing.assert_array_equal(theirs.packed, ours.packed)
    assert theirs.n_rows == ours.n_rows == sum(rows)
    assert found.report(table) == expected.report(table)
    assert len(cluster.seen) > threads


@pytest.mark.parametrize("engine", [LocalEngine(), InProcess(threads=2)])
def test_every_engine_counts_the_keys_of_the_rows_that_it_adds(
    engine: LocalEngine | InProcess, tmp_path: Path
) -> None:
    rows = mixed_rows(1000).append_column("person", pa.array(np.arange(1000) // 3))
    table = open_table(local_files(write_files(rows, tmp_path / "rows", 6)), KEYED)
    tally = FaultCounts(KEYED)
    with table.latest("person") as latest:
        engine.sum_table(latest, tally=tally, progress=lambda _: None)
        counted = engine.count_faults(latest, limit=0, target=None, progress=lambda _: None)
    assert tally.report(latest) == counted
    assert counted.key == KeyReport("person", 2, 3, 0)


@pytest.mark.parametrize("counted", [1, 3])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_cluster_adds_up_people_as_this_process_does_and_sees_no_key(
    tmp_path: Path, counted: int, threads: int
) -> None:
    schema, rows = people_schema(counted), rows_of_people(1000, seed=threads)
    table = open_table(local_files(write_files(rows, tmp_path / "rows", 6)), schema)
    cluster, sums, reports = InProcess(threads=threads, seed=counted, twice=True), [], []
    for engine in (LocalEngine(), cluster):
        tally = FaultCounts(schema)
        with table.latest("person") as latest:
            sums.append(engine.sum_table(latest, tally=tally, progress=lambda _: None))
            reports.append(tally.report(latest))
    with table.latest("person") as latest:
        reports.append(cluster.count_faults(latest, limit=0, target=None, progress=lambda _: None))
    assert isinstance(sums[1], PeopleMoments)
    assert sums[0].n_rows == sums[1].n_rows
    np.testing.assert_array_equal(sums[0].packed, sums[1].packed)
    assert reports[0] == reports[1] == reports[2]
    assert reports[0].key is not None
    assert reports[0].key.people == len(rows["person"].unique())
    assert len(cluster.seen) > threads
    assert "marked" not in "".join(part.to_json() for part in cluster.seen)


def test_people_whose_rows_changed_under_a_cluster_are_refused(tmp_path: Path) -> None:
    schema, rows = people_schema(), mixed_rows(1000)
    keys = pa.array([f"P{number // 4}" for number in range(1000)])
    folder = write_files(rows.append_column("person", keys), tmp_path / "rows", 6)
    table = open_table(local_files(folder), schema)
    others = pa.array([f"P{number // 5}" for number in range(1000)])
    with table.latest("person") as latest:
        write_files(rows.append_column("person", others), tmp_path / "again", 6)
        for each in (tmp_path / "again").iterdir():
            each.replace(folder / each.name)
        with pytest.raises(DataError):
            InProcess().sum_table(latest, tally=FaultCounts(schema), progress=lambda _: None)


def test_a_part_of_people_has_one_number_for_each_of_its_rows(table: Table) -> None:
    (part, *_) = make_manifest(table, slots=1)
    ks = np.arange(1, part.n_rows + 1)
    np.testing.assert_array_equal(Part.from_json(part.with_people(ks).to_json()).read_people(), ks)
    for wrong in (part, part.with_people(ks[:-1]), part.with_people(ks - 1)):
        with pytest.raises(ValueError, match="the part has no"):
            wrong.read_people()


def test_rows_whose_keys_an_engine_did_not_count_are_not_reported(table: Table) -> None:
    rows, tally = replace(table, key="y"), FaultCounts(KEYED)
    moments_of_table(table, KEYED, tally=tally)
    with pytest.raises(DataError, match="rows were counted by y, and 1000 were read"):
        tally.report(rows)
    live = SimpleNamespace(is_pinned=False, title="a query", uncut="is read by this machine alone")
    with pytest.raises(SettingError, match="a query is read by this machine alone"):
        tally.add_keys(replace(rows, source=live))  # type: ignore[arg-type]


def test_checks_have_the_row_numbers_and_labels_of_this_process(table: Table) -> None:
    expected = check_table(table, MIXED, limit=4, target="c")
    cluster = InProcess(seed=3)
    assert cluster.count_faults(table, limit=4, target="c", progress=lambda _: None) == expected
    local = LocalEngine().count_faults(table, limit=4, target="c", progress=lambda _: None)
    assert local == expected
    assert [
        row for each in expected.attributes.values() for c in each.found.values() for row in c.rows
    ]


def test_a_file_that_changes_under_a_cluster_leaves_nothing(table: Table, tmp_path: Path) -> None:
    write_files(mixed_rows(1000, seed=1), tmp_path / "again", 6)

    def replace_file(answer: object) -> object:
        (tmp_path / "again/rows-003.parquet").replace(tmp_path / "rows/rows-003.parquet")
        (tmp_path / "again/rows-003.parquet").touch()
        return answer

    cluster = InProcess(seed=1, after=replace_file)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the source changed"):
        cluster.sum_table(table, tally=FaultCounts(MIXED), progress=lambda _: None)


def test_a_version_of_a_lake_is_read_in_parts(tmp_path: Path) -> None:
    rows = mixed_rows(300).set_column(3, "c", pa.array(["a b"] * 300))
    rows = rows.set_column(2, "b", pa.array(["yes", "no", "no"] * 100))
    for _ in range(2):
        write_deltalake(tmp_path / "lake", rows, partition_by=["b"], mode="append")
    table = open_table(DeltaLocation("lake", str(tmp_path / "lake"), 1), MIXED)
    expected, cluster = LocalEngine(), InProcess(threads=2)
    sums = [
        each.sum_table(table, tally=FaultCounts(MIXED), progress=lambda _: None)
        for each in (expected, cluster)
    ]
    assert sums[0].n_rows == sums[1].n_rows == 600
    np.testing.assert_array_equal(sums[0].packed, sums[1].packed)
    assert len(cluster.seen) > 1


def test_files_of_an_object_store_are_cut_by_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = mixed_rows(400).drop_columns(["b"])
    folder = write_files(rows, tmp_path / "rows/b=no", 1).parent
    with object_store(monkeypatch) as store:
        address = upload(store, folder, below="rows")
        table = open_table(locate_files(address, folder=tmp_path, data_set="rows"), MIXED)
        cluster = InProcess(threads=2)
        found = cluster.sum_table(table, tally=FaultCounts(MIXED), progress=lambda _: None)
    local = open_table(local_files(folder), MIXED)
    expected = LocalEngine().sum_table(local, tally=FaultCounts(MIXED), progress=lambda _: None)
    np.testing.assert_array_equal(found.packed, expected.packed)
    assert len(cluster.seen) > 2


def test_an_engine_that_is_none_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(SettingError, match=r"ray://hub: the engine must be"),
        open_engine("ray://hub", tmp_path),
    ):
        pass


def test_an_engine_that_no_wheel_declares_is_refused_and_one_that_does_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared: list[Declared] = []
    monkeypatch.setattr(metadata, "entry_points", lambda **_: declared)
    told = (
        r"^no installed wheel has an engine spark: install the wheel dppca of this version again$"
    )
    with pytest.raises(SettingError, match=told), open_engine("spark", tmp_path):
        pass
    declared.append(Declared())
    with open_engine("spark", tmp_path) as engine:
        assert isinstance(engine, InProcess)
