"""The benchmarks by name, and what each is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Protocol, cast

from benchmarks.environments import Ask, GuestError, PatienceError, find_environment, open_guest
from dppca.common.kernel.errors import SettingError

BENCHMARKS = (
    *("dense", "labels", "files", "statistical", "databases", "mapping", "engines", "spark"),
    *("libraries", "resolution", "noise", "curator_load", "ledger", "masked_round", "secagg"),
    "people",
    "sizing",
)
"""Modules of this package, in the order of the page."""

GUEST = Path(__file__).with_name("guest.py")
Cell = str | int | float | None


Run = Callable[[], object]
"""Does a piece of work once.

A number that it returns is the time it took in seconds, which it has measured itself (in a process
of its own, say).
"""
Cpu = Callable[[], float]
"""A clock of the processor seconds of what runs."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each round, by the clock and of the processor, and the work of one.

    Processor time is of all threads of this process. Where one thread works alone it says on a
    busy machine what the clock would say on an idle one; it is 0 for work in other processes.
    """

    work: float = 1.0
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    @property
    def median_cpu_s(self) -> float:
        """Median processor seconds of a round."""
        return median(self.cpu_seconds)

    @property
    def median_s(self) -> float:
        """Median seconds of a round."""
        return median(self.seconds)

    @property
    def rate(self) -> float:
        """Work per second, by the median."""
        return self.work / self.median_s

    def gains(self, reference: Timing) -> tuple[float, float]:
        """How many times as much work as the reference's it does: by the clock, of the processor.

        The second counts rounds, whatever the work of one.
        """
        return self.rate / reference.rate, reference.median_cpu_s / self.median_cpu_s

    def rates(self, reference: Timing) -> tuple[float, float, float, float]:
        """Millions a second of the reference and of this, then `gains`."""
        return reference.rate / 1e6, self.rate / 1e6, *self.gains(reference)

    def add_round(self, run: Run, cpu: Cpu = process_time) -> None:
        """Time one round."""
        begin, begin_cpu = perf_counter(), cpu()
        own = run()
        self.cpu_seconds.append(cpu() - begin_cpu)
        self.seconds.append(own if isinstance(own, float) else perf_counter() - begin)


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
        Tells what is being measured.
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
        cpu: Mapping[str, Cpu] | None = None,
    ) -> dict[str, Timing]:
        """Time every contestant once a round, in turn; the order is reversed every other round.

        Parameters
        ----------
        work
            How much one run does, in whatever unit the table counts.
        most
            At most this number of rounds.
        warm_up
            Run each once before, uncounted: what is imported, compiled or cached on first use is
            not what is measured.
        cpu
            Clocks of subjects that work in other processes.
        """
        if warm_up:
            for run in subjects.values():
                run()
        shares = work if isinstance(work, Mapping) else dict.fromkeys(subjects, work)
        timings = {name: Timing(shares[name]) for name in subjects}
        for number in range(self.rounds if most is None else min(self.rounds, most)):
            for name in subjects if number % 2 == 0 else reversed([*subjects]):
                timings[name].add_round(subjects[name], (cpu or {}).get(name, process_time))
        return timings

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


@contextmanager
def open_guests(
    plan: BenchmarkPlan,
    pythons: Mapping[str, Path | None],
    *arguments: str,
    threads: int,
    patience_s: float,
) -> Iterator[tuple[dict[str, tuple[Ask, float]], list[str]]]:
    """Guests that have fitted once, by name, with the seconds it took; and a note on each other."""
    fitted, notes = dict[str, tuple[Ask, float]](), list[str]()
    with ExitStack() as stack:
        for name, python in pythons.items():
            if python is None:
                notes.append(f"{name} (not installed)")
                continue
            plan.say(f"{name} fits for the first time")
            ask = stack.enter_context(open_guest(python, GUEST, name, *arguments, threads=threads))
            try:
                fitted[name] = ask, ask("fit", patience_s)
            except PatienceError as error:
                notes.append(f"{name} ({error})")
        yield fitted, notes


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
