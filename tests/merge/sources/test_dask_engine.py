"""The pass over all rows on real Dask workers: the same integers, each part once, nothing said."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.common.kernel.errors import DataError, ExitCode, SettingError, UnreachableError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.moments.moments import Moments
from dppca.owner.engines import cluster as engines
from dppca.owner.engines.dask import DaskEngine
from dppca.owner.engines.selection import open_engine
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.file_locations import local_files, locate_files
from dppca.owner.records.table import Table, moments_of_table, open_table
from tests.support import mapped_tables
from tests.support.census import census_rows
from tests.support.certificates import new_authority, write_credentials
from tests.support.curator import Curator
from tests.support.engines import (
    MIXED,
    DaskCluster,
    dask_cluster,
    mixed_rows,
    other_dppca,
    people_schema,
    rows_of_people,
    without_dppca,
    write_files,
)
from tests.support.mapped_tables import MappedCase
from tests.support.object_store import object_store, upload
from tests.support.patience import WAIT_S
from tests.support.sites import OwnerSite, error_of, make_enrolled_site, policy_text

MARKS = ("marked-label-4711", "41.73952618")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Two workers."""
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engines.make_manifest.__kwdefaults__, "least_bytes", 1)


def opened(folder: Path) -> Table:
    return open_table(local_files(folder), MIXED)


def on_dask(cluster: DaskCluster, table: Table) -> tuple[Moments, CheckReport]:
    tally = FaultCounts(MIXED)
    with open_engine(cluster.engine, cluster.folder) as engine:
        moments = engine.sum_table(table, tally=tally, progress=lambda _: None)
    return moments, tally.report(table)


def test_any_cut_and_any_format_give_the_same_integers(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    rows = mixed_rows(3000, seed=11)
    plain = reduce(
        lambda table, name: table.set_column(
            table.column_names.index(name), name, table[name].cast(pa.string())
        ),
        rows.column_names,
        rows,
    )
    places = {n: write_files(rows, tmp_path / f"parquet-{n}", n) for n in (1, 7, 16)}
    (tmp_path / "csv").mkdir()
    for n, start in enumerate(range(0, 3000, 1000)):
        pa.csv.write_csv(plain.slice(start, 1000), tmp_path / f"csv/{n}.csv")
    connection = sqlite3.connect(tmp_path / "rows.db")
    with connection:
        connection.execute("CREATE TABLE rows (x TEXT, y TEXT, b TEXT, c TEXT)")
        connection.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?)", zip(*plain.to_pydict().values(), strict=True)
        )
    connection.close()
    place = SQLiteLocation("rows (database)", database=tmp_path / "rows.db", table="rows")
    expected = moments_of_table(open_table(place, MIXED), MIXED)
    for folder in [*places.values(), tmp_path / "csv"]:
        table, tally = opened(folder), FaultCounts(MIXED)
        here = moments_of_table(table, MIXED, tally=tally)
        there, report = on_dask(cluster, table)
        assert there.n_rows == here.n_rows == expected.n_rows == 3000
        np.testing.assert_array_equal(here.packed, expected.packed)
        np.testing.assert_array_equal(there.packed, expected.packed)
        assert report == tally.report(table)


@pytest.mark.parametrize("seed", range(12))
def test_workers_map_columns_to_the_sums_of_the_file_converted_by_hand(
    cluster: DaskCluster, tmp_path: Path, seed: int
) -> None:
    case, schema = MappedCase.of(seed), mapped_tables.SCHEMA
    place = local_files(case.write_files(tmp_path)).mapped(case.mapping(tmp_path))
    table, tally = open_table(place, schema), FaultCounts(schema)
    with open_engine(cluster.engine, cluster.folder) as engine:
        found = engine.sum_table(table, tally=tally, progress=lambda _: None)
    wanted = moments_of_table(case.by_hand(tmp_path), schema)
    np.testing.assert_array_equal(found.packed, wanted.packed)
    here = FaultCounts(schema)
    moments_of_table(table, schema, tally=here)
    assert tally.report(table) == here.report(table)


@pytest.mark.parametrize("counted", [1, 3])
def test_people_are_added_up_by_workers_to_the_same_integers_from_any_cut(
    cluster: DaskCluster, tmp_path: Path, counted: int
) -> None:
    schema, rows = people_schema(counted), rows_of_people(3000, seed=counted)
    (tmp_path / "csv").mkdir()
    for n in range(3):
        pa.csv.write_csv(rows.slice(1000 * n, 1000), tmp_path / f"csv/{n}.csv")
    folders = [write_files(rows, tmp_path / f"parquet-{n}", n) for n in (1, 7)]
    found = []
    for folder in [*folders, tmp_path / "csv"]:
        table = open_table(local_files(folder), schema)
        with (
            table.latest("person") as latest,
            open_engine(cluster.engine, cluster.folder) as engine,
        ):
            found.append(moments_of_table(latest, schema))
            tally = FaultCounts(schema)
            found.append(engine.sum_table(latest, tally=tally, progress=lambda _: None))
            assert (
                tally.report(latest).key
                == engine.count_faults(latest, limit=0, target=None, progress=lambda _: None).key
            )
    for each in found:
        np.testing.assert_array_equal(each.packed, found[0].packed)
        assert each.n_rows == found[0].n_rows


def test_a_study_of_people_is_contributed_to_by_dask(
    cluster: DaskCluster, curator: Curator, tmp_path: Path
) -> None:
    rows = census_rows(40).append_column("person", pa.array([f"P{n // 3}" for n in range(40)]))
    site = make_enrolled_site(curator, tmp_path / "site", rows=rows)
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("path: rows.csv", "path: rows.csv, key: person"))
    study = curator.begin(site.name, "absent", unit="person", max_rows_per_person=None)
    code, sent = site.contribute(study, "--engine", cluster.engine)
    assert (code, sent["rows"], sent["counts"]) == (0, 14, "people"), sent


def test_workers_read_an_object_store_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_files(mixed_rows(900), tmp_path / "rows", 5)
    with object_store(monkeypatch) as store:
        address = upload(store, folder, below="rows")
        table = open_table(locate_files(address, folder=tmp_path, data_set="rows"), MIXED)
        with dask_cluster(tmp_path / "cluster", workers=1) as cluster:
            moments, _ = on_dask(cluster, table)
    assert moments.n_rows == 900
    np.testing.assert_array_equal(moments.packed, moments_of_table(opened(folder), MIXED).packed)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    table = opened(write_files(mixed_rows(200_000, seed=2), tmp_path / "rows", 16))
    killed: list[int] = []
    with (
        dask_cluster(tmp_path / "cluster") as cluster,
        open_engine(cluster.engine, tmp_path) as engine,
    ):
        assert isinstance(engine, DaskEngine)
        client = engine._client
        while len(found := client.run(os.getpid)) < 2:
            client.wait_for_workers(2, timeout=WAIT_S)
        engine.check()
        processes: dict[str, int] = found

        def kill_one(_: int) -> None:
            if not killed:
                busy = [address for address, keys in client.processing().items() if keys]
                cluster.kill_worker(processes[busy[0]])
                killed.append(processes[busy[0]])

        moments = engine.sum_table(table, tally=FaultCounts(MIXED), progress=kill_one)
        assert len(client.nthreads()) == 1
    assert len(killed) == 1
    np.testing.assert_array_equal(moments.packed, moments_of_table(table, MIXED).packed)
    assert moments.n_rows == 200_000


def test_a_part_whose_workers_always_die_ends_the_pass(tmp_path: Path) -> None:
    table = opened(write_files(mixed_rows(200_000), tmp_path / "rows", 4))
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    with dask_cluster(tmp_path / "cluster", workers=1, settings=settings) as cluster:
        with open_engine(cluster.engine, tmp_path) as engine:
            assert isinstance(engine, DaskEngine)
            tally = FaultCounts(MIXED)
            with pytest.raises(DataError, match=r"died at the same part") as died:
                engine.sum_table(table, tally=tally, progress=lambda _: cluster.workers[0].kill())
            assert "nothing was counted" in str(died.value)
            # Nobody is left: that is said, too, and in a bounded time.
            engine._no_worker_s = 5.0
            with pytest.raises(DataError, match="has had no worker for 5 s"):
                engine.sum_table(table, tally=tally, progress=lambda _: None)
            with pytest.raises(UnreachableError, match="does not answer as a Dask cluster"):
                engine.check()
        cluster.scheduler.kill()
        cluster.scheduler.wait(WAIT_S)


UNLIKE = {"has another DPPCA": other_dppca, "cannot load DPPCA": without_dppca}


@pytest.mark.parametrize("says", UNLIKE)
def test_a_worker_of_another_version_stops_before_anything_is_charged(
    curator: Curator, tmp_path: Path, says: str
) -> None:
    site, study = _site(curator, tmp_path, n_files=2)
    with dask_cluster(tmp_path / "cluster", workers=0) as cluster:
        own = {"PYTHONPATH": UNLIKE[says](tmp_path / "other")}
        cluster.start_worker(environment={**cluster.environment, **own})
        answer = site.run("contribute", study, "--yes", "--engine", cluster.engine)
    code, message = error_of(answer)
    assert code == SettingError.exit_code
    assert f"{says}: install the dppca of this machine there" in message
    assert site.history.length == 0


@pytest.mark.parametrize(
    ("unlike", "error", "says"),
    [
        (other_dppca, SettingError, "is not like this machine: install the same DPPCA"),
        # Dask ends a worker that cannot read its tasks; others would get them.
        (without_dppca, DataError, "no worker for 5 s: start workers that have this machine's"),
    ],
)
def test_a_worker_of_another_version_that_joins_late_adds_nothing_up(
    tmp_path: Path, unlike: Callable[[Path], str], error: type[Exception], says: str
) -> None:
    table = opened(write_files(mixed_rows(900), tmp_path / "rows", 5))
    with (
        dask_cluster(tmp_path / "cluster", workers=1) as cluster,
        open_engine(cluster.engine, tmp_path) as engine,
    ):
        assert isinstance(engine, DaskEngine)
        own = {"PYTHONPATH": unlike(tmp_path / "other")}
        cluster.start_worker(environment={**cluster.environment, **own})
        engine._no_worker_s = 5.0
        engine._client.wait_for_workers(2, timeout=WAIT_S)
        cluster.kill_worker(cluster.workers[0].pid)
        with pytest.raises(error, match=says):
            engine.sum_table(table, tally=FaultCounts(MIXED), progress=lambda _: None)


def test_a_site_contributes_by_its_cluster_and_the_receipt_verifies(
    curator: Curator, cluster: DaskCluster, tmp_path: Path
) -> None:
    site, study = _site(curator, tmp_path, n_files=7)
    code, checked = site.run("check", study, "--engine", cluster.engine)
    assert (code, checked["coded_by_rule"]["rows"]) == (0, 500)
    _place(site, f"engine: {cluster.engine}")
    code, reviewed = site.run("review", study)
    assert (code, reviewed["rows"]) == (0, 500)
    code, done = site.run("contribute", study, "--yes")
    assert (code, done["rows"]) == (0, 500)
    (reservation,) = site.history.reservations
    assert reservation.request.engine == "dask"
    entries = (site.folder / "ledger.sqlite").read_bytes()
    assert b'"engine":"dask"' in entries
    assert cluster.address.partition("//")[2].encode() not in entries
    components = tmp_path / "components.npz"
    assert site.run("components", study, "--wait", "300", "--output", str(components))[0] == 0
    code, verified = site.run("verify", str(components))
    assert code == 0, verified
    # What an engine read is drawn once, whoever is asked again.
    code, again = site.run("contribute", study, "--yes", "--engine", "local")
    assert (code, again["already_stored"]) == (0, True)


def test_doctor_says_that_a_cluster_does_not_answer(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.owner.engines.dask.CONNECT_S", 1.0)
    site, _ = _site(curator, tmp_path, n_files=1)
    _place(site, "engine: dask://127.0.0.1:9")
    code, document = site.run("doctor")
    (found,) = (each for each in document["findings"] if each["area"] == "engine")
    assert (code, found["state"]) == (UnreachableError.exit_code, "broken")
    _, document = site.run("doctor", "--offline")
    (found,) = (each for each in document["findings"] if each["area"] == "engine")
    assert found["state"] == "skipped"


def test_keys_are_written_by_this_machine_alone(curator: Curator, tmp_path: Path) -> None:
    site, study = _site(curator, tmp_path, n_files=1)
    _place(site, "key: age", "engine: dask://127.0.0.1:9")
    keys = tmp_path / "keys.csv"
    line = ("check", study, "--keys", str(keys))
    code, message = error_of(site.run(*line, "--engine", "dask://127.0.0.1:9"))
    assert (code, keys.exists()) == (SettingError.exit_code, False)
    assert "leave out --engine" in message
    assert site.run(*line)[0] == ExitCode.INVALID_ROWS, "one age is not one person"
    assert keys.read_text() == "attribute,fault,age\n"


def test_a_database_is_refused_on_an_engine(
    curator: Curator, cluster: DaskCluster, tmp_path: Path
) -> None:
    site, study = _site(curator, tmp_path, n_files=1)
    connection = sqlite3.connect(site.folder / "rows.db")
    with connection:
        connection.execute("CREATE TABLE people (age, sex, work)")
        connection.execute("INSERT INTO people VALUES (40, 'Male', 'state')")
    connection.close()
    place = "source: {sqlite: {path: rows.db}}, table: people"
    (site.folder / "policy.yaml").write_text(policy_text({"people": place}))
    code, message = error_of(site.run("contribute", study, "--yes", "--engine", cluster.engine))
    assert code == SettingError.exit_code
    assert "Leave out --engine, or export the rows to Parquet" in message
    assert site.history.length == 0


def test_marked_values_are_in_no_print_of_a_worker_nor_in_an_error(
    cluster: DaskCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = mixed_rows(400, seed=8)
    marked = pa.table(
        {"x": [MARKS[1]] * 400, "y": rows["y"], "b": [MARKS[0]] * 400, "c": rows["c"]}
    )
    folder = write_files(marked, tmp_path / "rows", 3)
    on_dask(cluster, opened(folder))
    table = opened(folder)
    path = folder / "rows-001.parquet"
    content, status = bytearray(path.read_bytes()), path.stat()
    content[200:1200] = b"\xff" * 1000  # pages of the file, not its footer
    path.write_bytes(bytes(content))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(DataError) as caught:
        on_dask(cluster, table)
    error: BaseException | None = caught.value
    said = [cluster.printed, *capfd.readouterr()]
    while error is not None:
        said += [str(error), repr(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    printed = "".join(said)
    assert "distributed.worker" in printed
    assert [mark for mark in MARKS if mark in printed] == []
    # Dask itself prints a traceback where a connection ends as it writes; none may be of our code.
    assert not re.findall(r'File "[^"]*(?:owner|common)/\w+/[^"]*", line', cluster.printed)


def test_a_cluster_by_tls_needs_the_sites_files_and_its_own_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, stranger = new_authority(), new_authority()
    own = write_credentials_in(tmp_path / "site/cluster", authority)
    hub = write_credentials_in(tmp_path / "machines", authority)
    write_credentials_in(tmp_path / "stranger/cluster", stranger)
    security = [
        *("--tls-ca-file", str(hub / "ca.pem")),
        *("--tls-cert", str(hub / "certificate.pem")),
        *("--tls-key", str(hub / "key.pem")),
    ]
    table = opened(write_files(mixed_rows(500), tmp_path / "rows", 3))
    with dask_cluster(
        tmp_path / "cluster", workers=1, security=security, protocol="tls"
    ) as cluster:
        assert cluster.address.startswith("tls://")
        with open_engine(cluster.address, tmp_path / "site") as engine:
            moments = engine.sum_table(table, tally=FaultCounts(MIXED), progress=lambda _: None)
        np.testing.assert_array_equal(moments.packed, moments_of_table(table, MIXED).packed)
        monkeypatch.setattr("dppca.owner.engines.dask.CONNECT_S", 3.0)
        for folder, error in (("stranger", UnreachableError), ("nobody", SettingError)):
            with pytest.raises(error), open_engine(cluster.address, tmp_path / folder):
                pass
        (own / "key.pem").chmod(0o644)
        with (
            pytest.raises(SettingError, match="may be read by others"),
            open_engine(cluster.address, tmp_path / "site"),
        ):
            pass


def write_credentials_in(folder: Path, authority: Any) -> Path:
    folder.mkdir(parents=True)
    write_credentials(folder, authority.issue(Role.CURATOR, "cluster"))
    (folder / "key.pem").chmod(0o600)
    return folder


def _site(curator: Curator, folder: Path, *, n_files: int) -> tuple[OwnerSite, str]:
    """A site with 500 rows in Parquet files, alone in a study."""
    site = make_enrolled_site(curator, folder / "site")
    study = curator.begin(site.name)
    write_files(census_rows(500), site.folder / "rows", n_files)
    _place(site)
    return site, study.name


def _place(site: OwnerSite, *fields: str) -> None:
    """Say in the policy where the rows are, with more fields of the data set."""
    policy = policy_text({"survey": ", ".join(["path: rows", *fields])})
    (site.folder / "policy.yaml").write_text(policy)
