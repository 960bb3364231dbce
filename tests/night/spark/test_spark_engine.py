"""The pass by Spark: files and tables, workers that die or differ, and what nobody gets to see."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.owner.engines import cluster as module
from dppca.owner.engines import spark as spark_module
from dppca.owner.engines.engine import LocalEngine
from dppca.owner.engines.kernel import take_fingerprint
from dppca.owner.engines.selection import open_engine
from dppca.owner.engines.spark import SparkEngine
from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.spark_tables import SparkLocation
from dppca.owner.records.table import Table, open_table
from tests.night.spark.conftest import submit_arguments
from tests.support import mapped_tables
from tests.support.checkout import ROOT
from tests.support.engines import (
    MIXED,
    mixed_rows,
    other_dppca,
    people_schema,
    rows_of_people,
    without_dppca,
    write_files,
)
from tests.support.mapped_tables import MappedCase
from tests.support.patience import run_watched

SCRIPT = Path(__file__).with_name("two_ways.py")


@pytest.fixture(scope="module")
def engine(spark: Any) -> Iterator[SparkEngine]:
    with open_engine("spark", Path()) as opened:
        assert isinstance(opened, SparkEngine)
        assert opened.slots == 2
        yield opened


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.make_manifest.__kwdefaults__, "least_bytes", 1)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions of a table have answered, in each pass over one."""
    counts, merge = list[int](), spark_module.merge

    def note(title: str, parts: Any, *given: Any, **named: Any) -> Any:
        counts.append(len(parts))
        return merge(title, parts, *given, **named)

    monkeypatch.setattr(spark_module, "merge", note)
    return counts


def nothing(_: int) -> None:
    pass


def as_table(spark: Any, folder: Path, name: str) -> Table:
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} USING parquet LOCATION '{folder}'")
    place = SparkLocation(f"{name} (Spark table)", ("spark_catalog", "default", name))
    return open_table(place, MIXED)


@pytest.mark.parametrize("n_files", [1, 7, 16])
def test_files_and_a_table_have_the_integers_and_counts_of_this_process(
    spark: Any, engine: SparkEngine, tmp_path: Path, n_files: int, answered: list[int]
) -> None:
    folder = write_files(
        mixed_rows(1600, seed=n_files), tmp_path / "rows", n_files, group_rows=2000
    )
    files = open_table(local_files(folder), MIXED)
    expected = FaultCounts(MIXED)
    ours = LocalEngine().sum_table(files, tally=expected, progress=nothing)
    spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))  # a partition for each file
    try:
        for table in (files, as_table(spark, folder, "some_rows")):
            found, parts = FaultCounts(MIXED), list[int]()
            theirs = engine.sum_table(table, tally=found, progress=parts.append)
            np.testing.assert_array_equal(theirs.packed, ours.packed)
            assert theirs.n_rows == ours.n_rows == sum(parts) == 1600
            assert found.report() == expected.report()
            n_parts = len(parts) if table is files else answered[0]
            assert n_parts >= min(n_files, 6), "rows were really in parts"
    finally:
        spark.conf.unset("spark.sql.files.openCostInBytes")


@pytest.mark.parametrize("seed", range(8))
def test_files_and_a_table_are_mapped_to_the_sums_of_the_file_converted_by_hand(
    spark: Any, engine: SparkEngine, tmp_path: Path, seed: int
) -> None:
    case, schema = MappedCase.of(seed), mapped_tables.SCHEMA
    folder, mapping = case.write_files(tmp_path), case.mapping(tmp_path)
    spark.sql("DROP TABLE IF EXISTS mapped_rows")
    spark.sql(f"CREATE TABLE mapped_rows USING parquet LOCATION '{folder}'")
    of_spark = SparkLocation("mapped", ("spark_catalog", "default", "mapped_rows"))
    wanted = LocalEngine().sum_table(
        case.by_hand(tmp_path), tally=FaultCounts(schema), progress=nothing
    )
    for place in (local_files(folder), of_spark):
        table = open_table(place.mapped(mapping), schema)
        found = engine.sum_table(table, tally=FaultCounts(schema), progress=nothing)
        np.testing.assert_array_equal(found.packed, wanted.packed)


def test_people_in_files_are_added_up_by_workers_and_those_of_a_table_by_this_machine(
    spark: Any, engine: SparkEngine, tmp_path: Path
) -> None:
    schema, folder = people_schema(3), tmp_path / "rows"
    write_files(rows_of_people(1600), folder, 7, group_rows=2000)
    sums = []
    for each in (LocalEngine(), engine):
        with open_table(local_files(folder), schema).latest("person") as latest:
            tally = FaultCounts(schema)
            sums.append(each.sum_table(latest, tally=tally, progress=nothing))
            assert tally.report(latest).key is not None
    np.testing.assert_array_equal(sums[0].packed, sums[1].packed)
    assert sums[0].n_rows == sums[1].n_rows
    spark.sql(f"CREATE TABLE people USING parquet LOCATION '{folder}'")
    place = SparkLocation("people (Spark table)", ("spark_catalog", "default", "people"))
    table = replace(open_table(place, schema), key="person")
    counted = replace(table, people=table.count_people())
    with pytest.raises(
        SettingError, match="are not added up in a Spark table: a row weighs by its key"
    ):
        engine.sum_table(counted, tally=FaultCounts(schema), progress=nothing)


def test_check_has_the_row_numbers_of_files_and_none_of_a_table(
    spark: Any, engine: SparkEngine, tmp_path: Path
) -> None:
    folder = write_files(mixed_rows(900), tmp_path / "rows", 5)
    files, table = open_table(local_files(folder), MIXED), as_table(spark, folder, "checked")
    assert engine.count_faults(files, limit=4, target="c", progress=nothing) == check_table(
        files, MIXED, limit=4, target="c"
    )
    report = engine.count_faults(table, limit=4, target="c", progress=nothing)
    assert report == check_table(table, MIXED, limit=4, target="c")
    assert not any(
        count.rows for each in report.attributes.values() for count in each.found.values()
    )


@pytest.mark.parametrize("kind", ["files", "table"])
def test_a_worker_that_is_killed_at_work_changes_nothing(
    spark: Any, engine: SparkEngine, tmp_path: Path, kind: str
) -> None:
    rows = pa.concat_tables([mixed_rows(4000)] * 150).unify_dictionaries()
    folder = write_files(rows, tmp_path / "rows", 8, group_rows=100_000)
    files = open_table(local_files(folder), MIXED)
    table = files if kind == "files" else as_table(spark, folder, "killed_rows")
    expected = LocalEngine().sum_table(files, tally=FaultCounts(MIXED), progress=nothing)
    for _ in range(6):  # a kill may come when a worker has just done its part
        failed_before, ended = failed_tasks(spark), threading.Event()
        killer = threading.Thread(target=kill_one_at_work, args=(ended,))
        killer.start()
        try:
            found = engine.sum_table(table, tally=FaultCounts(MIXED), progress=nothing)
        finally:
            ended.set()
            killer.join()
        np.testing.assert_array_equal(found.packed, expected.packed)
        assert found.n_rows == expected.n_rows == len(rows)
        if failed_tasks(spark) > failed_before:
            return
    pytest.fail("no worker was killed at work")


def failed_tasks(spark: Any) -> int:
    """Attempts that have failed in this session so far."""
    tracker = spark.sparkContext.statusTracker()
    stages = (tracker.getStageInfo(number) for number in range(10_000))
    return sum(stage.numFailedTasks for stage in stages if stage is not None)


def kill_one_at_work(ended: threading.Event) -> None:
    """Kill the first of Spark's Pythons that has used a tenth of a second since now."""
    before = python_workers()
    while not ended.wait(0.02):
        for pid, ticks in python_workers().items():
            if ticks - before.setdefault(pid, ticks) > 0.1 * os.sysconf("SC_CLK_TCK"):
                os.kill(pid, signal.SIGKILL)
                return


def python_workers() -> dict[int, int]:
    """Processor time, in ticks, of Spark's Pythons that this process has started."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
                if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                    ticks[int(folder.name)] = int(fields[11]) + int(fields[12])
            except OSError:  # it has ended meanwhile
                continue
            parents[int(folder.name)] = int(fields[1])
    # The daemon is a child of our Java; the workers are its children.
    mine = {pid for pid, parent in parents.items() if parent == os.getpid()}
    daemons = {pid for pid in ticks if parents.get(pid) in mine}
    return {pid: spent for pid, spent in ticks.items() if parents.get(pid) in daemons}


def test_a_worker_that_differs_is_refused_before_and_in_the_pass(
    spark: Any, engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_files(mixed_rows(50), tmp_path / "rows", 1)
    tables = [open_table(local_files(folder), MIXED), as_table(spark, folder, "differing")]
    other = replace(take_fingerprint(), canary="0" * 64, numpy="1.0")
    monkeypatch.setattr("dppca.owner.engines.kernel.take_fingerprint", lambda: other)
    monkeypatch.setattr(module, "take_fingerprint", lambda: other)
    with pytest.raises(SettingError, match="version of NumPy and another sum of the canary"):
        engine.check()
    for table in tables:
        with pytest.raises(SettingError, match="a worker is not like this machine"):
            engine.sum_table(table, tally=FaultCounts(MIXED), progress=nothing)


@pytest.mark.parametrize(
    ("says", "unlike"),
    [("has another DPPCA", other_dppca), ("cannot load DPPCA", without_dppca)],
    ids=["another", "none"],
)
def test_pythons_of_executors_without_this_dppca_are_told_what_to_install(
    tmp_path: Path, says: str, unlike: Callable[[Path], str]
) -> None:
    python = tmp_path / "python"
    path = unlike(tmp_path / "other")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    line = "from pathlib import Path; from dppca.owner.engines.selection import open_engine; "
    line += "open_engine('spark', Path()).__enter__()"
    own = {"PYSPARK_SUBMIT_ARGS": " ".join(submit_arguments(tmp_path))}
    environment = {**os.environ, **own, "PYSPARK_PYTHON": str(python)}
    done = run_watched([sys.executable, "-c", line], cwd=tmp_path, env=environment)
    assert done.returncode != 0
    said = done.stderr.splitlines()[-1]
    assert f"a worker of Spark {says}: install the dppca of this machine there" in said


def test_a_source_that_changes_during_the_pass_leaves_nothing(
    spark: Any, engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_files(mixed_rows(300), tmp_path / "rows", 3)
    table = as_table(spark, folder, "changing")
    collect = SparkEngine._collect

    def write_meanwhile(self: SparkEngine, frame: Any, answer: Callable[[Any], Any]) -> list[Any]:
        answers = collect(self, frame, answer)
        write_files(mixed_rows(10), tmp_path / f"more-{time.monotonic_ns()}", 1)
        (more,) = tmp_path.glob("more-*/*.parquet")
        more.rename(folder / "rows-9.parquet")
        return answers

    with monkeypatch.context() as patch:
        patch.setattr(SparkEngine, "_collect", write_meanwhile)
        with pytest.raises(DataError, match="and 310 are there now"):
            engine.sum_table(table, tally=FaultCounts(MIXED), progress=nothing)
    run = SparkEngine.run
    for change, said in (
        ("touch", "the source changed"),
        ("unlink", "a worker cannot read a file"),
    ):

        def change_first(self: SparkEngine, parts: Any, work: Any, name: str = change) -> Any:
            getattr(folder / "rows-001.parquet", name)()
            return run(self, parts, work)

        with monkeypatch.context() as patch:
            patch.setattr(SparkEngine, "run", change_first)
            files = open_table(local_files(folder), MIXED)
            with pytest.raises(DataError, match=said):
                engine.sum_table(files, tally=FaultCounts(MIXED), progress=nothing)


def test_a_partition_that_answers_twice_is_not_counted_twice(
    spark: Any, engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = as_table(spark, write_files(mixed_rows(100), tmp_path / "rows", 2), "doubled")
    collect = SparkEngine._collect
    monkeypatch.setattr(SparkEngine, "_collect", lambda *given: collect(*given) * 2)
    with pytest.raises(DataError, match="had 100 rows when it was counted, and 200 were read"):
        engine.sum_table(table, tally=FaultCounts(MIXED), progress=nothing)


def test_a_wide_table_is_cut_into_fewer_partitions(
    spark: Any,
    engine: SparkEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answered: list[int],
) -> None:
    folder = write_files(mixed_rows(400), tmp_path / "rows", 6)
    monkeypatch.setattr(spark_module, "_JOB_BYTES", 8 * MIXED.layout.n_entries)
    spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))
    try:
        for table in (open_table(local_files(folder), MIXED), as_table(spark, folder, "wide")):
            parts = list[int]()
            engine.sum_table(table, tally=FaultCounts(MIXED), progress=parts.append)
            assert sum(parts) == 400
            assert answered == ([] if table.source.is_numbered else [1])
    finally:
        spark.conf.unset("spark.sql.files.openCostInBytes")


def test_the_integers_are_the_same_by_connect_and_no_row_is_in_any_output(tmp_path: Path) -> None:
    run_two_ways(tmp_path, {"SPARK_REMOTE": "local[2]"})


def test_executors_of_their_own_may_be_killed_and_their_logs_hold_no_row(tmp_path: Path) -> None:
    import pyspark

    arguments = [
        *["--master", "local-cluster[2,1,1024]"],
        *["--conf", "spark.authenticate.secret=between-these-processes"],
        *submit_arguments(tmp_path)[2:],
    ]
    own = {"PYSPARK_SUBMIT_ARGS": " ".join(arguments), "PYSPARK_PYTHON": sys.executable}
    said = run_two_ways(tmp_path, own, "kill")
    assert said.count("an executor was killed") == 2
    # Where a worker of `local-cluster` keeps what its executors print, Python's words too.
    (folder,) = (Path(pyspark.__file__).parent / "work").glob(said[0])
    logs = {path: path.read_text() for path in folder.glob("*/std*")}
    shutil.rmtree(folder)
    assert sum(text.startswith("Spark Executor Command") for text in logs.values()) >= 3
    assert not any("hidden-word" in text for text in logs.values())


def run_two_ways(folder: Path, own: dict[str, str], *arguments: str) -> list[str]:
    """What the script prints, in an environment of its own."""
    rows = write_files(mixed_rows(3000), folder / "rows", 4)
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_SUBMIT_ARGS"}
    environment |= {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **own}
    done = run_watched(
        [sys.executable, str(SCRIPT), str(rows), *arguments], cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hidden-word" not in done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert "a view fails on a row" in said[-2]
    assert said[-1] == "the same integers"
    return list(said)
