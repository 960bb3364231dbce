"""Engines without a cluster, a Dask cluster of real processes on loopback, and rows for both."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dppca.common.kernel.schema import Schema
from dppca.owner.engines.cluster import ClusterEngine
from dppca.owner.engines.kernel import Answer, Work, answer_part
from dppca.owner.engines.parts import Part
from tests.support.checkout import ROOT
from tests.support.patience import WAIT_S, wait_until
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

MIXED = make_schema(
    [
        numeric_of("x", -1, 3, histogram=True),
        numeric_of("y", 0, 10),
        binary_of("b", ["yes", "no"], missing="no"),
        categorical_of("c", ["1", "a b", "é", "true"]),
    ],
    resolution_bits=8,
)
"""Numbers as text and as floats, labels, everything that coding has to replace."""


def mixed_rows(n_rows: int, *, seed: int = 0) -> pa.Table:
    """Rows of `MIXED`: text in numbers, nulls, infinities, labels known and unknown."""
    rng = np.random.default_rng(seed)
    odd = ["x", "", "NaN", "-inf", "1e999", " 2.5", "-0", None]
    texts = [
        odd[int(rng.integers(len(odd)))] if rng.random() < 0.2 else repr(float(number))
        for number in rng.normal(1, 2, n_rows)
    ]
    floats = rng.normal(5, 4, n_rows)
    floats[rng.random(n_rows) < 0.1] = np.inf
    floats[rng.random(n_rows) < 0.1] = np.nan
    labels = np.array(["yes", "no", " no ", "?", "1", "a b", "é", "true", ""])
    return pa.table(
        {
            "x": pa.array(texts, pa.string()),
            "y": pa.array(floats, mask=rng.random(n_rows) < 0.1),
            "b": pa.array(rng.choice(labels, n_rows), mask=rng.random(n_rows) < 0.1),
            "c": pa.array(rng.choice(labels, n_rows)).dictionary_encode(),
        }
    )


def people_schema(rows_counted: int = 1) -> Schema:
    """The schema of `mixed_rows`, with ``unit: person``."""
    document = MIXED.model_dump(mode="json", exclude={"max_rows_per_person"})
    return Schema.from_document({**document, "unit": "person", "rows_counted": rows_counted})


def rows_of_people(n_rows: int, *, seed: int = 0) -> pa.Table:
    """`mixed_rows` of people with one row to some dozens, in any order, with their ``person``."""
    keys = np.random.default_rng(seed).permutation(np.arange(n_rows) ** 2 // (3 * n_rows))
    people = pa.array([f"marked-{key}" for key in keys])
    return mixed_rows(n_rows, seed=seed).append_column("person", people)


def write_files(rows: pa.Table, folder: Path, n_files: int, *, group_rows: int = 97) -> Path:
    """Cut rows into Parquet files of unequal size, in the order of their names."""
    folder.mkdir(parents=True)
    bounds = [rows.num_rows * k * k // n_files**2 for k in range(n_files + 1)]
    for k in range(n_files):
        pq.write_table(
            rows.slice(bounds[k], bounds[k + 1] - bounds[k]),
            folder / f"rows-{k:03}.parquet",
            row_group_size=group_rows,
        )
    return folder


@dataclass
class InProcess(ClusterEngine):
    """Workers in this process: answers in any order, some of them twice."""

    threads: int = 1
    seed: int = 0
    twice: bool = False
    after: Callable[[Answer], Answer] = lambda answer: answer
    seen: list[Part] = field(default_factory=list)

    @property
    def slots(self) -> int:
        return self.threads

    def check(self) -> None:
        pass

    def run(self, parts: Sequence[Part], work: Work) -> Iterator[Answer]:
        self.seen = list(parts)
        order = [*parts, *(parts if self.twice else ())]
        random.Random(self.seed).shuffle(order)
        for part in order:
            yield self.after(answer_part(part.to_json(), work.to_json()))


@dataclass
class DaskCluster:
    """A scheduler and its workers, each a process with a file for its output."""

    folder: Path
    address: str
    security: Sequence[str]
    scheduler: subprocess.Popen[bytes]
    environment: Mapping[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def engine(self) -> str:
        return self.address.replace("tcp://", "dask://")

    @property
    def printed(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.log")))

    def start_worker(self, *more: str, environment: Mapping[str, str] | None = None) -> None:
        """Start a worker with one thread; without a nanny, so that its process is the worker."""
        arguments = [*more, "--nthreads", "1", "--no-nanny", "--local-directory", str(self.folder)]
        self.workers.append(
            _start(
                self.folder / f"worker-{len(self.workers)}.log",
                ["dask_worker", self.address, *arguments, *self.security],
                self.environment if environment is None else environment,
            )
        )

    def kill_worker(self, process_id: int) -> None:
        """Kill a worker like a power cut."""
        (worker,) = (each for each in self.workers if each.pid == process_id)
        worker.kill()
        worker.wait(WAIT_S)


def other_dppca(folder: Path) -> str:
    """A ``PYTHONPATH`` with which a worker has a DPPCA of other code."""
    skipped = shutil.ignore_patterns("__pycache__", "curator", "deploy")
    shutil.copytree(ROOT / "dppca", folder / "dppca", ignore=skipped)
    with (folder / "dppca/common/kernel/schema/coding.py").open("a") as file:
        file.write("\n# of another version\n")
    return str(folder)


def without_dppca(folder: Path) -> str:
    """A ``PYTHONPATH`` with which a worker has no DPPCA."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'dppca':\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    return str(folder)


@contextmanager
def dask_cluster(
    folder: Path,
    *,
    workers: int = 2,
    security: Sequence[str] = (),
    protocol: str = "tcp",
    settings: Mapping[str, str] | None = None,
) -> Iterator[DaskCluster]:
    """Run a cluster on loopback, whose workers have the DPPCA of this Python, during the block."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    # A worker that finds no more work is not given up soon on a busy machine.
    environment |= {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "120s", **(settings or {})}
    file = folder / "scheduler.json"
    place = ["--host", "127.0.0.1", "--port", "0", "--protocol", protocol]
    scheduler = _start(
        folder / "scheduler.log",
        ["dask_scheduler", *place, "--scheduler-file", str(file), *security],
        environment,
    )
    cluster = None
    try:
        cluster = DaskCluster(folder, _address(file, scheduler), security, scheduler, environment)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        for process in [*(cluster.workers if cluster else []), scheduler]:
            process.kill()
            process.wait(WAIT_S)


def _start(
    log: Path, line: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    name, *arguments = line
    command = [sys.executable, "-m", f"distributed.cli.{name}", *arguments, "--no-dashboard"]
    with log.open("wb") as out:
        return subprocess.Popen(
            command, cwd=log.parent, env=dict(environment), stdout=out, stderr=subprocess.STDOUT
        )


def _address(file: Path, scheduler: subprocess.Popen[bytes]) -> str:
    def said() -> str:
        return (file.parent / "scheduler.log").read_text()

    def address() -> str:
        assert scheduler.poll() is None, said()
        with suppress(FileNotFoundError, ValueError):  # it is not there yet, or being written
            return str(json.loads(file.read_text())["address"])
        return ""

    return wait_until(address, said=said)
