"""Cells by the rules of `benchmarks.experiment`, some of which cannot be run.

1. A cell that could not run is kept with its reason, and is not run again either: no environment, a
   guest that failed and its last words, or patience that ended.
2. Where patience ended for a contestant on a data set, its other cells there are not tried, and say
   so.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.environments import GuestError, PatienceError
from benchmarks.experiment import Found, group_runs, mean_and_error, read_runs, run_trials

RUN = ("key", "split", "fault")
Seeds = Sequence[tuple[int, int]]
"""Of releases: the split, and a number in it."""
_SLOW = "not done in"


@dataclass(frozen=True, slots=True)
class RivalRun:
    """One contestant's run.

    Attributes
    ----------
    facts
        What it is known by: ``subject``, ``contestant``, ``split`` and others.
    run
        Figures by name; raises `GuestError`.
    """

    facts: Mapping[str, Any]
    run: Callable[[], Found]

    @property
    def key(self) -> str:
        """All facts as one text."""
        return "/".join(str(each) for each in self.facts.values())


def cross(
    run: Callable[..., Found], varied: Mapping[str, Iterable[Any]], *, only: str
) -> Iterator[RivalRun]:
    """Every combination of what varies, the last of it fastest.

    Parameters
    ----------
    run
        Is given all facts by name.
    only
        A part of the names of the contestants that are wanted.
    """
    for values in product(*varied.values()):
        facts = dict(zip(varied, values, strict=True))
        if only.lower() in facts["contestant"].lower():
            yield RivalRun(facts, partial(run, **facts))


@dataclass(frozen=True, slots=True)
class Maker:
    """One line of a table whose cells are many releases each.

    Attributes
    ----------
    neighbours
        Empty where nothing is private.
    releases
        In each of the splits.
    """

    name: str
    neighbours: str
    releases: int
    epsilons: tuple[str, ...]


_Maker = TypeVar("_Maker", bound=Maker)


def cross_makers(
    makers: Iterable[_Maker],
    run: Callable[[_Maker, str, Seeds], Found],
    subject: str,
    *,
    splits: int,
    only: str,
) -> Iterator[RivalRun]:
    """All cells of a table; each split has releases of its own, whose seeds ``run`` is given."""
    for who in makers:
        varied = {
            "subject": [subject],
            "contestant": [who.name],
            "neighbours": [who.neighbours],
            "epsilon": who.epsilons,
            "split": range(splits),
        }
        yield from cross(partial(_run_known, run, who), varied, only=only)


def _run_known(
    run: Callable[[_Maker, str, Seeds], Found],
    who: _Maker,
    *,
    epsilon: str,
    split: int,
    **_: Any,
) -> Found:
    return run(who, epsilon, [(split, number) for number in range(who.releases)])


def read_cells(cells: Sequence[RivalRun], path: Path) -> list[Found]:
    """Every cell's figures, or why there are none, as the file has them; nothing is run."""
    done = read_runs(path)
    missing = {"fault": "not run, for want of machine time"}
    return [done.get(cell.key, {**cell.facts, **missing}) for cell in cells]


def run_cells(cells: Sequence[RivalRun], path: Path) -> list[Found]:
    """Every cell's figures, or why there are none: from the file, or run and added to it."""
    done = read_runs(path).values()
    slow = {_place(each) for each in done if str(each.get("fault")).startswith(_SLOW)}

    def run(cell: RivalRun) -> Found:
        if _place(cell.facts) in slow:
            return {**cell.facts, "fault": "not tried, as another cell took too long"}
        try:
            return {**cell.facts, **cell.run()}
        except GuestError as error:
            if isinstance(error, PatienceError):
                slow.add(_place(cell.facts))
            return {**cell.facts, "fault": str(error)}

    return run_trials(cells, path, run=run)


def summarize(results: Iterable[Mapping[str, Any]], by: Sequence[str]) -> list[Found]:
    """One cell per value of ``by``: means of the runs that gave figures, reasons of the others."""
    cells = []
    for key, runs in group_runs(results, by).items():
        done = [run for run in runs if "fault" not in run]
        reasons = [" ".join(str(run["fault"]).split()) for run in runs if "fault" in run]
        faults = {reason: reasons.count(reason) for reason in reasons}
        names = [name for name in (done[0] if done else {}) if name not in (*by, *RUN)]
        figures = {name: mean_and_error([run[name] for run in done]) for name in names}
        facts = dict(zip(by, key, strict=True))
        cells.append({**facts, "runs": len(done), "faults": faults, **figures})
    return cells


def _place(facts: Mapping[str, Any]) -> tuple[str, str]:
    return facts["subject"], facts["contestant"]
