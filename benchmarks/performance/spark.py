"""The pass over all rows on Spark, beside what Spark does with the same rows itself."""

import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from benchmarks.environments import ROOT, Ask, find_environment, open_guest
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.tables import write_folder

TITLE = "A pass on Spark"
ABOUT = """
Exact moments in one Spark session of two slots (`local[2]`) on this machine, two ways: *files* are
read by pyarrow in Spark's Python workers, a *table* is read by Spark and reaches them as Arrow
batches. Beside them, in the same session and from the same Parquet files: Spark's own sums of all
columns, which leave Java at no time; a `mapInArrow` that counts the rows of the same batches and
does nothing else; and the PCA of pyspark.ml with ten components. The pass of one process with two
threads is there to compare the integers of the other two with, which the benchmark does. The
session's start and its check are not counted; first rounds, in which Java compiles and Python
imports, are given apart. Processor seconds are those of Spark's Java and of all Python processes.
Ratios are DPPCA's, to *files* and to *table*: above 1 it is the faster, and by processor time it
has less to do. Spark has an environment of its own, which the benchmark makes from
`requirements/spark.lock`.
"""

COMPONENTS = 10
FILES = 16
PATIENCE_S = 900.0
_SHAPES = ((8_000_000, 20),)
_TINY = ((1600, 12),)
_GUEST = Path(__file__).with_name("spark_guest.py")
_FILES, _TABLE = "DPPCA, files", "DPPCA, table"
_ACTIONS = {
    _FILES: "files",
    _TABLE: "table",
    "DPPCA, one process": "one process",
    "Spark's sums of all columns": "own sums",
    "a counting mapInArrow": "count",
    "pyspark.ml PCA": "pyspark.ml",
}
"""What the guest is asked for each contestant."""


@dataclass
class Rounds:
    """Seconds of each round, by the clock and of the processor; the first is the warm-up."""

    seconds: list[float] = field(default_factory=list)
    java: list[float] = field(default_factory=list)
    python: list[float] = field(default_factory=list)

    @property
    def clock_s(self) -> float:
        """Median of the counted rounds."""
        return median(self.seconds[1:])

    @property
    def cpu_s(self) -> float:
        """Median of the counted rounds, Java and Python together."""
        return median(map(sum, zip(self.java[1:], self.python[1:], strict=True)))


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """A table for each shape."""
    python = _find_python(plan)
    tables = []
    for n, d in _TINY if plan.quick else _SHAPES:
        folder = plan.scratch / f"rows-{d}"
        write_folder(folder, d, n, files=FILES)
        with open_guest(python, _GUEST, str(folder), str(d), str(COMPONENTS), threads=1) as ask:
            rounds = _race(plan, ask, d)
        caption = f"n = {n:,}, d = {d}, {FILES} files; all integers of DPPCA are the same."
        tables.append(_tabulate(caption, rounds))
    return tables


def _find_python(plan: BenchmarkPlan) -> Path:
    """Return this interpreter where it has Spark, else one of an environment that is made now."""
    if find_spec("pyspark") is not None:
        return Path(sys.executable)
    plan.say("an environment for Spark")
    locked = ("--no-deps", "--require-hashes", "--requirement")
    return find_environment(
        "spark",
        [*locked, str(ROOT / "requirements/build.lock")],
        ["--no-build-isolation", *locked, str(ROOT / "requirements/spark.lock")],
    )


def _race(plan: BenchmarkPlan, ask: Ask, d: int) -> dict[str, Rounds]:
    rounds = {name: Rounds() for name in _ACTIONS}
    for number in range(plan.rounds + 1):
        for name in _ACTIONS if number % 2 == 0 else reversed(_ACTIONS):
            plan.say(f"{name}, d = {d}, " + (f"round {number}" if number else "warm-up"))
            each = rounds[name]
            each.seconds.append(ask(_ACTIONS[name], PATIENCE_S))
            each.java.append(ask("java"))
            each.python.append(ask("python"))
        ask("compare")
    return rounds


def _tabulate(caption: str, rounds: dict[str, Rounds]) -> FigureTable:
    ours = [rounds[_FILES], rounds[_TABLE]]
    rows: list[tuple[Cell, ...]] = [
        (
            *(name, each.seconds[0], each.clock_s),
            *(median(each.java[1:]), median(each.python[1:])),
            *(each.clock_s / mine.clock_s for mine in ours),
            *(each.cpu_s / mine.cpu_s for mine in ours),
        )
        for name, each in rounds.items()
    ]
    columns = (
        *("contestant", "first round s", "seconds", "Java's processor s", "Python's processor s"),
        *("to files", "to table", "to files, by processor time", "to table, by processor time"),
    )
    return FigureTable(caption, columns, tuple(rows))
