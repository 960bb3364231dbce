"""The benchmarks by name, and what each is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from benchmarks.environments import GuestError, find_environment
from benchmarks.performance.racing import Run, Timing, time_subjects
from dppca.common.errors import SettingError

BENCHMARKS = (
    *("dense", "labels", "files", "databases", "engines", "spark", "libraries", "resolution"),
    *(
        "noise",
        "synthesis",
        "curator_load",
        "ledger",
        "whole_round",
        "masked_round",
        "secagg",
        "sizing",
    ),
)
"""Modules of this package, in the order of the page."""

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Figures with a caption; a cell of None is shown as a dash."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """How a benchmark is to run.

    Attributes
    ----------
    quick
        At sizes of a second or so in all, to see that it works.
    rounds
        Timed rounds of each race.
    scratch
        An empty folder, removed afterwards.
    say
        Tells anybody who waits what is being measured.
    """

    quick: bool
    rounds: int
    scratch: Path
    say: Callable[[str], None]

    def race(
        self,
        subjects: Mapping[str, Run],
        *,
        work: float | Mapping[str, float] = 1.0,
        most: int | None = None,
        warm_up: bool = True,
    ) -> dict[str, Timing]:
        """Time subjects in the plan's rounds, or in ``most`` of them; see `time_subjects`."""
        rounds = self.rounds if most is None else min(self.rounds, most)
        return time_subjects(subjects, rounds=rounds, work=work, warm_up=warm_up)

    def environment(self, name: str, folder: str, *installs: Sequence[str]) -> Path | None:
        """The interpreter of another library; None in a quick run.

        It is None, too, where the library cannot be installed, which is said.
        """
        if self.quick:
            return None
        self.say(f"an environment for {name}")
        try:
            return find_environment(folder, *installs)
        except GuestError as error:
            self.say(f"{name} is left out: {error}")
            return None


class Benchmark(Protocol):
    """What a module of this package provides."""

    TITLE: str
    ABOUT: str
    """Markdown under the heading: what is compared with what, and how to read it."""

    @staticmethod
    def measure(plan: BenchmarkPlan) -> list[FigureTable]:
        """Run it."""


def find_benchmark(name: str) -> Benchmark:
    """The benchmark called ``name``; its module is imported only now."""
    if name not in BENCHMARKS:
        raise SettingError(f"there is no benchmark {name}; there are {', '.join(BENCHMARKS)}")
    return cast(Benchmark, import_module(f"benchmarks.performance.{name}"))
