"""Runs the cells of an experiment in processes and keeps every finished run.

The file of runs follows the rules of `benchmarks.experiment`. Runs that the present grid does not
ask for stay in it and out of the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.experiment import kept_runs, read_runs
from benchmarks.papers.trials import Experiment, Run, Trial, TrialOutcome
from dppca.common.console import Progress, progress
from dppca.common.errors import DataError, DppcaError, SettingError


def run_cells(
    experiment: Experiment, cells: Sequence[Trial], path: Path, *, jobs: int
) -> tuple[Run, ...]:
    """Every cell's run, in the order of the cells: from the file, or computed and added to it.

    Parameters
    ----------
    path
        File of runs; made where there is none.
    jobs
        Processes; 1 computes in this one.

    Raises
    ------
    DataError, SettingError
        The file is not of this version; a cell cannot be computed (its name is in the message).
    """
    if jobs < 1:
        raise SettingError(f"--jobs is {jobs}; it must be 1 or more")
    try:
        done = {key: TrialOutcome(**run["outcome"]) for key, run in read_runs(path).items()}
    except (LookupError, TypeError) as error:
        raise DataError(f"{path} holds figures of another version: move it away") from error
    missing = [cell for cell in cells if _key(cell) not in done]
    with progress(experiment.name, len(missing)) as bar, kept_runs(path) as log:

        def keep(cell: Trial, outcome: TrialOutcome) -> None:
            done[_key(cell)] = outcome
            log({"key": _key(cell), "outcome": asdict(outcome)})

        if jobs == 1:
            with threadpool_limits(1):
                for cell in missing:
                    keep(cell, _computed(experiment.compute, cell))
                    bar.advance()
        else:
            _in_processes(experiment, missing, keep, bar, jobs=jobs)
    return tuple(Run(cell, done[_key(cell)]) for cell in cells)


def _key(cell: Trial) -> str:
    return f"{cell.name}, seed {cell.seed}"


def _computed(compute: Callable[[Trial], TrialOutcome], cell: Trial) -> TrialOutcome:
    try:
        return compute(cell)
    except DppcaError as error:
        raise type(error)(f"{_key(cell)}: {error}") from error


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
