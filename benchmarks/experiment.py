"""What benchmarks of many runs share: runs that are kept, means with their errors, tables, files.

Rules of a file of runs
-----------------------
1. A run is one line of JSON, written whole and flushed to the disk before the next one.
2. What is in the file is not run again: a run is known by its key.
3. A line that an interruption cut short is dropped when the file is opened again.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Protocol, TypeVar

import click
from threadpoolctl import threadpool_limits

from dppca.common.kernel.errors import DataError
from dppca.common.shell.console import progress

Found = dict[str, Any]
_Command = TypeVar("_Command", bound=Callable[..., Any])


def page_options(name: str) -> Callable[[_Command], _Command]:
    """Options of a benchmark that keeps its trials: ``path`` of the file, and ``write``."""
    cells = click.option(
        "--cells",
        "path",
        type=click.Path(dir_okay=False, path_type=Path),
        default=Path(f"results/{name}/cells.jsonl"),
        show_default=True,
        help="File of finished trials, which are not computed again: one of this version only.",
    )
    write = click.option(
        "--write",
        is_flag=True,
        help=f"Put the figures into docs/evidence/{name}.json and its page.",
    )
    return lambda command: cells(write(command))


class AnyTrial(Protocol):
    """What is run once, and known by its key."""

    @property
    def key(self) -> str:
        """All that the run depends on, as one text."""


@dataclass(frozen=True, slots=True)
class KeyedTrial:
    """A trial that is known by all its fields."""

    @property
    def key(self) -> str:
        """The fields, in their order."""
        return "/".join(str(getattr(self, each.name)) for each in fields(self))


_TrialT = TypeVar("_TrialT", bound=AnyTrial)


def run_trials(
    trials: Sequence[_TrialT],
    path: Path,
    *,
    run: Callable[[_TrialT], Found],
    jobs: int = 1,
) -> list[Found]:
    """Results of all trials in their order: from the file, or computed and added to it.

    Parameters
    ----------
    run
        Computes one, as plain values; a module's function where there are several ``jobs``.
    jobs
        Processes; 1 computes in this one.
    """
    done = read_runs(path)
    missing = [trial for trial in trials if trial.key not in done]
    with kept_runs(path) as keep, progress(path.stem, len(missing)) as bar:
        for trial, found in _compute(missing, run, jobs):
            done[trial.key] = {"key": trial.key, **found}
            keep(done[trial.key])
            bar.advance()
    return [done[trial.key] for trial in trials]


def _compute(
    trials: Sequence[_TrialT], run: Callable[[_TrialT], Found], jobs: int
) -> Iterator[tuple[_TrialT, Found]]:
    """Each with one thread: processes are faster than threads that fight for cores."""
    if jobs == 1:
        with threadpool_limits(1):
            for trial in trials:
                yield trial, run(trial)
        return
    # Fresh processes: a fork would copy the threads of numerical libraries in any state.
    spawn = get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=threadpool_limits, initargs=(1,))
    try:
        waiting = {pool.submit(run, trial): trial for trial in trials}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def read_runs(path: Path) -> dict[str, Found]:
    """Finished runs of a file by their key; a last line without an end is cut off the file."""
    if not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    try:
        lines: list[Mapping[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        return {line["key"]: dict(line) for line in lines}
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} holds a line that is not a run: move it away") from error


@contextmanager
def kept_runs(path: Path) -> Iterator[Callable[[Found], None]]:
    """Open a file of runs and give what adds one to it and waits for the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:

        def keep(run: Found) -> None:
            file.write(json.dumps(run) + "\n")
            file.flush()
            os.fsync(file.fileno())

        yield keep


def group_runs(
    runs: Iterable[Mapping[str, Any]], by: Sequence[str]
) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    """Runs by what they have in common, in the order in which each first comes."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for each in runs:
        groups.setdefault(tuple(each[name] for name in by), []).append(each)
    return groups


def mean_and_error(values: Sequence[Any]) -> Any:
    """Mean and its standard error, to five digits; of mappings, by name."""
    if isinstance(values[0], Mapping):
        return {name: mean_and_error([value[name] for value in values]) for name in values[0]}
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    return [round(fmean(values), 5), round(error, 5)]


def shown(measured: Sequence[float], digits: int = 3) -> str:
    """Such as ``0.750 ± 0.050``."""
    return f"{measured[0]:.{digits}f} ± {measured[1]:.{digits}f}"


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, words: Iterable[int] = (0,)
) -> str:
    """A table in Markdown; columns of ``words`` are to the left, all others are numbers."""
    left = set(words)
    lines = [
        header,
        ["---" if place in left else "---:" for place in range(len(header))],
        *rows,
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def keep_cells(
    path: Path,
    cells: Iterable[Found],
    *,
    known_by: Sequence[str],
    order: Callable[[Found], Any],
) -> Found:
    """Put cells into a committed file in place of older ones; return the whole document.

    What the file says beside its ``cells`` (how they were measured, what each figure is) stays.

    Parameters
    ----------
    known_by
        Older cells that agree with a new one in these facts go.
    """
    known: Found = json.loads(path.read_text()) if path.exists() else {"cells": []}
    fresh = list(cells)
    replaced = {tuple(cell[name] for name in known_by) for cell in fresh}
    older = [e for e in known["cells"] if tuple(e[name] for name in known_by) not in replaced]
    document = {**known, "cells": sorted([*older, *fresh], key=order)}
    path.write_text(cells_text(document) + "\n")
    return document


def cells_text(document: Mapping[str, Any]) -> str:
    """A document in JSON, with each of its ``cells`` on a line."""
    head = {name: value for name, value in document.items() if name != "cells"}
    lines = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in document["cells"])
    told = json.dumps(head, indent=1, ensure_ascii=False)[1:-1].rstrip()
    return f'{{{told}{"," * bool(head)}\n "cells": [\n{lines}\n]}}'


def fill_tables(page: Path, tables: Mapping[str, str]) -> str:
    """Text of a page whose tables, each between ``<!-- NAME -->`` and ``<!-- end -->``, are new.

    What ends without a line end is a figure within a line. Raises `DataError` where the page has
    marks for other tables than these.
    """
    names = []

    def filled(match: re.Match[str]) -> str:
        names.append(match[1])
        table = tables.get(match[1], "")
        whole = f"\n\n{table}\n" if table.endswith("\n") else table
        return f"<!-- {match[1]} -->{whole}<!-- end -->"

    marks = re.compile(r"<!-- (?!end)([\w-]+) -->.*?<!-- end -->", re.DOTALL)
    text = marks.sub(filled, page.read_text())
    if sorted(names) != sorted(tables):
        raise DataError(f"{page} has marks for {names}; the tables are {[*tables]}")
    return text
