"""Rounds that alternate between subjects, and their medians."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time

Run = Callable[[], object]
"""Does a piece of work once.

A number that it returns is the time it took in seconds, which it has measured itself (in a process
of its own, say).
"""


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

    def add_round(self, run: Run, cpu: Callable[[], float] = process_time) -> None:
        """Time one round."""
        begin, begin_cpu = perf_counter(), cpu()
        own = run()
        self.cpu_seconds.append(cpu() - begin_cpu)
        self.seconds.append(own if isinstance(own, float) else perf_counter() - begin)


def time_subjects(
    subjects: Mapping[str, Run],
    *,
    rounds: int,
    work: float | Mapping[str, float] = 1.0,
    warm_up: bool = True,
) -> dict[str, Timing]:
    """Time every subject once a round, in turn; the order is reversed every other round.

    Parameters
    ----------
    work
        How much one run does, in whatever unit the table counts.
    warm_up
        Run each once before, uncounted: what is imported, compiled or cached on first use is not
        what is measured.
    """
    if warm_up:
        for run in subjects.values():
            run()
    shares = work if isinstance(work, Mapping) else dict.fromkeys(subjects, work)
    timings = {name: Timing(shares[name]) for name in subjects}
    for number in range(rounds):
        for name in subjects if number % 2 == 0 else reversed([*subjects]):
            timings[name].add_round(subjects[name])
    return timings
