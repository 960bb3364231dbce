"""Runs cells and keeps every finished one, by the rules of `benchmarks.experiment`.

Rules
-----
1. A fault is not run again either, unless that is asked for.
2. A cell that could not run is kept with its reason: no environment, a guest that failed and its
   last words, or patience that ended.
3. Where patience ended for a contestant on a data set, its other cells there are not tried, and say
   so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.experiment import Found, group_runs, kept_runs, mean_and_error, read_runs
from benchmarks.performance.environments import GuestError, make_environment
from benchmarks.studies import ROOT
from dppca.common.numerics.threads import one_blas_thread

RUN = ("key", "split", "fault")


class NotRunError(RuntimeError):
    """A cell cannot be run; why."""


class PatienceError(NotRunError):
    """A cell took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{_SLOW} {seconds:.0f} s")


_SLOW = "not done in"


@dataclass(frozen=True, slots=True)
class RivalRun:
    """One contestant's run.

    Attributes
    ----------
    facts
        What it is known by: ``subject``, ``contestant``, ``split`` and others.
    run
        Figures by name; raises `NotRunError` or `GuestError`.
    """

    facts: Mapping[str, Any]
    run: Callable[[], Found]

    @property
    def key(self) -> str:
        """All facts as one text."""
        return "/".join(str(each) for each in self.facts.values())


def read_cells(cells: Sequence[RivalRun], path: Path) -> list[Found]:
    """Every cell's figures, or why there are none, as the file has them; nothing is run."""
    done = read_runs(path)
    missing = {"fault": "not run, for want of machine time"}
    return [done.get(cell.key, {**cell.facts, **missing}) for cell in cells]


def run_cells(
    cells: Sequence[RivalRun], path: Path, *, again: bool, say: Callable[[str], None]
) -> list[Found]:
    """Every cell's figures, or why there are none: from the file, or run and added to it."""
    done = {} if again else read_runs(path)
    slow = {_place(each) for each in done.values() if str(each.get("fault")).startswith(_SLOW)}
    missing = [cell for cell in cells if cell.key not in done]
    with one_blas_thread(), kept_runs(path) as keep:
        for number, cell in enumerate(missing, start=1):
            say(f"{number} of {len(missing)}: {cell.key}")
            result: Found = {"key": cell.key, **cell.facts}
            if _place(result) in slow:
                result["fault"] = "not tried, as another cell took too long"
            else:
                try:
                    result |= cell.run()
                except PatienceError as error:
                    slow.add(_place(result))
                    result["fault"] = str(error)
                except (NotRunError, GuestError) as error:
                    result["fault"] = str(error)
            if "fault" in result:
                say(f"  not run: {result['fault']}")
            keep(result)
            done[cell.key] = result
    return [done[cell.key] for cell in cells]


def find_environment(folder: str, *installs: Sequence[str]) -> Path:
    """The interpreter of an environment, made when it is first asked for.

    Raises
    ------
    NotRunError
        It cannot be made; pip's last words.
    """
    python, fault = make_environment(ROOT / "build/tools" / folder, *installs)
    if python is None:
        raise NotRunError(f"{folder} cannot be installed here: {fault.strip()}")
    return python


def summarize(results: Iterable[Mapping[str, Any]], by: Sequence[str]) -> list[Found]:
    """One cell per value of ``by``: means of the runs that gave figures, reasons of the others."""
    cells = []
    for key, runs in group_runs(results, by).items():
        done = [run for run in runs if "fault" not in run]
        faults: dict[str, int] = {}
        for run in runs:
            if "fault" in run:
                reason = " ".join(str(run["fault"]).split())
                faults[reason] = faults.get(reason, 0) + 1
        names = [name for name in (done[0] if done else {}) if name not in (*by, *RUN)]
        figures = {name: mean_and_error([run[name] for run in done]) for name in names}
        cells.append(
            dict(zip(by, key, strict=True)) | {"runs": len(done), "faults": faults} | figures
        )
    return cells


def _place(facts: Mapping[str, Any]) -> tuple[str, str]:
    return facts["subject"], facts["contestant"]
