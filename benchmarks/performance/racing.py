"""Rounds that alternate between contestants, and their medians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time


@dataclass(frozen=True, slots=True)
class BenchmarkSubject:
    """One way of doing a piece of work.

    Attributes
    ----------
    run
        Does it once. What it returns is the time it took in seconds where it measures that
        itself (in a process of its own, say), else None.
    work
        How much work one run does, in whatever unit the table counts: contestants may differ.
    """

    name: str
    run: Callable[[], float | None]
    work: float = 1.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each round, by the clock and of the processor, and the work of one.

    Processor time is of all threads of this process. Where one thread works alone it says on a
    busy machine what the clock would say on an idle one; it is 0 for work in other processes.
    """

    seconds: tuple[float, ...]
    work: float
    cpu_seconds: tuple[float, ...] = ()

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


def time_subjects(
    contestants: Sequence[BenchmarkSubject], *, rounds: int, warm_up: bool = True
) -> dict[str, Timing]:
    """Time every contestant once a round, in turn; the order is reversed every other round.

    Parameters
    ----------
    warm_up
        Run each once before, uncounted: what is imported, compiled or cached on first use is not
        what is measured.
    """
    if warm_up:
        for contestant in contestants:
            contestant.run()
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    cpu: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for number in range(rounds):
        for contestant in contestants if number % 2 == 0 else reversed(contestants):
            begin, begin_cpu = perf_counter(), process_time()
            own = contestant.run()
            cpu[contestant.name].append(process_time() - begin_cpu)
            seconds[contestant.name].append(perf_counter() - begin if own is None else own)
    return {
        each.name: Timing(tuple(seconds[each.name]), each.work, tuple(cpu[each.name]))
        for each in contestants
    }
