"""Runs the cells of an experiment in processes and keeps every finished run.

Rules
-----
1. A run is one line of a CSV file, written whole and flushed to the disk before the next one.
2. What is in the file is not computed again: a run is known by its cell's name and its seed.
3. A line that an interruption cut short is dropped when the file is opened again.
4. Runs that the present grid does not ask for stay in the file and out of the tables.

A file of other columns, as an older version may have left, is refused rather than mixed up.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.papers.trials import Experiment, Run, Trial, TrialOutcome
from dppca.common.console import Progress, progress
from dppca.common.errors import DataError, DppcaError, SettingError

COLUMNS = (
    *("cell", "seed", "data", "target", "method", "variant", "epsilon", "true_epsilon", "delta"),
    *("m", "n", "d", "k", "scored", "accuracy", "decoded_accuracy", "support_vectors"),
    *("seconds", "predict_seconds"),
)
_Key = tuple[str, int]


def run_cells(
    experiment: Experiment, cells: Sequence[Trial], path: Path, *, jobs: int
) -> tuple[Run, ...]:
    """Every cell's run, in the order of the cells: from the file, or computed and added to it.

    Parameters
    ----------
    path
        CSV file; made where there is none.
    jobs
        Processes; 1 computes in this one.

    Raises
    ------
    DataError, SettingError
        The file is not of this version; a cell cannot be computed (its name is in the message).
    """
    if jobs < 1:
        raise SettingError(f"--jobs is {jobs}; it must be 1 or more")
    done = read_runs(path)
    missing = [cell for cell in cells if (cell.name, cell.seed) not in done]
    with progress(experiment.name, len(missing)) as bar, _Log(path) as log:

        def keep(cell: Trial, outcome: TrialOutcome) -> None:
            done[cell.name, cell.seed] = outcome
            log.append(cell, outcome)

        if jobs == 1:
            with threadpool_limits(1):
                for cell in missing:
                    keep(cell, _computed(experiment.compute, cell))
                    bar.advance()
        else:
            _in_processes(experiment, missing, keep, bar, jobs=jobs)
    return tuple(Run(cell, done[cell.name, cell.seed]) for cell in cells)


def read_runs(path: Path) -> dict[_Key, TrialOutcome]:
    """Finished runs of a file, by name and seed; none where there is no file.

    A last line without an end is cut off the file.
    """
    if not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    reader = csv.DictReader(io.StringIO(whole))
    if whole and tuple(reader.fieldnames or ()) != COLUMNS:
        raise DataError(f"{path} has other columns than this version writes: move it away")
    try:
        return {(row["cell"], int(row["seed"])): _outcome(row) for row in reader}
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} holds a line that is not a run: move it away") from error


class _Log:
    """The CSV file, open for appending."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> _Log:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._stream = self._path.open("a", newline="")
        if self._stream.tell() == 0:
            self._write(dict(zip(COLUMNS, COLUMNS, strict=True)))
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def append(self, cell: Trial, outcome: TrialOutcome) -> None:
        """Write one run and wait for the disk."""
        fields = {
            "cell": cell.name,
            "seed": cell.seed,
            "data": cell.source.name,
            "target": cell.target,
            "method": cell.method,
            "variant": cell.variant,
            "epsilon": cell.epsilon,
            "m": cell.owners,
            "scored": cell.scored,
            **asdict(outcome),
        }
        self._write(fields)

    def _write(self, fields: Mapping[str, Any]) -> None:
        line = io.StringIO(newline="")
        csv.DictWriter(line, COLUMNS, lineterminator="\n").writerow(fields)
        self._stream.write(line.getvalue())
        self._stream.flush()
        os.fsync(self._stream.fileno())


def _outcome(row: Mapping[str, str]) -> TrialOutcome:
    return TrialOutcome(
        n=int(row["n"]),
        d=int(row["d"]),
        k=int(row["k"]),
        accuracy=float(row["accuracy"]),
        seconds=float(row["seconds"]),
        predict_seconds=float(row["predict_seconds"]),
        delta=row["delta"],
        true_epsilon=row["true_epsilon"],
        support_vectors=int(row["support_vectors"]) if row["support_vectors"] else None,
        decoded_accuracy=float(row["decoded_accuracy"]) if row["decoded_accuracy"] else None,
    )


def _computed(compute: Callable[[Trial], TrialOutcome], cell: Trial) -> TrialOutcome:
    try:
        return compute(cell)
    except DppcaError as error:
        raise type(error)(f"{cell.name}, seed {cell.seed}: {error}") from error


def _in_processes(
    experiment: Experiment,
    missing: Sequence[Trial],
    keep: Callable[[Trial, TrialOutcome], None],
    bar: Progress,
    *,
    jobs: int,
) -> None:
    # Fresh processes: a fork would copy the threads of numerical libraries in any state.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_one_thread)
    try:
        waiting: dict[Future[TrialOutcome], Trial] = {
            pool.submit(_computed, experiment.compute, cell): cell for cell in missing
        }
        while waiting:
            finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                keep(waiting.pop(future), future.result())
                bar.advance()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    """One process per core is faster than threads that fight for them, and times are comparable."""
    threadpool_limits(1)
