"""Files of SPSS and Stata, beside pyreadstat alone reading them whole."""

import resource
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

from benchmarks.environments import read_peak_mib
from benchmarks.performance.machine import run_apart
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable

TITLE = "Files of statistical programs"
ABOUT = """
All columns of a file (eight numbers, a text, a date) into Arrow arrays, chunk by chunk, with the
file's rows counted and its worker started; beside `pyreadstat.read_sav` and `read_dta`, which
read it into one data frame, without conversion of dates. Each in a process of its own, in turn. The
peaks of the last two columns are of the command's process and of its worker's, at the same time.
"""
_ROWS, _TINY = 1_000_000, 2000
_KINDS = (("sav", "plain"), ("sav", "compressed"), ("dta", ""))


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Seconds and peaks of both."""
    n = _TINY if plan.quick else _ROWS
    return [
        FigureTable(
            "Seconds of reading a file; the ratio is DPPCA to pyreadstat alone.",
            (
                *("format", "form", "n", "pyreadstat", "DPPCA", "ratio", "by processor time"),
                *("its peak MiB", "peak MiB", "worker's peak MiB"),
            ),
            tuple(_row(plan, *kind, n) for kind in _KINDS),
        )
    ]


def _row(plan: BenchmarkPlan, kind: str, form: str, n: int) -> tuple[Cell, ...]:
    plan.say(f".{kind} {form}, n = {n}")
    path = plan.scratch / f"rows.{kind}"
    run_apart(write, str(path), form, n)
    found = [
        (run_apart(whole, str(path)), run_apart(chunks, str(path))) for _ in range(plan.rounds)
    ]
    path.unlink()
    alone, mine = (np.array([each[i] for each in found]) for i in (0, 1))
    seconds = [median(each[:, 0].tolist()) for each in (alone, mine)]
    cpu = [median(each[:, 1].tolist()) for each in (alone, mine)]
    peaks = (alone[:, 2].max(), mine[:, 2].max(), mine[:, 3].max())
    return (
        *(kind, form, n, *seconds, seconds[1] / seconds[0], cpu[1] / cpu[0]),
        *map(float, peaks),
    )


def write(path: str, form: str, n: int) -> None:
    """Write the file; for a process of its own."""
    import pandas as pd
    import pyreadstat

    random = np.random.default_rng(23)
    frame = pd.DataFrame(
        {
            **{f"x{i}": random.normal(50, 10, n).round(3) for i in range(4)},
            **{f"k{i}": random.integers(0, 9, n).astype(np.int8) for i in range(4)},
            "ward": random.choice(["north", "south", "east", "west"], n),
            "day": random.integers(0, 9000, n).astype(float),
        }
    )
    if path.endswith(".dta"):
        pyreadstat.write_dta(frame, path, variable_format={"day": "%td"})
        return
    frame["day"] = frame["day"] * 86_400 + 1.3e10
    compressed = form == "compressed"
    pyreadstat.write_sav(frame, path, variable_format={"day": "DATE11"}, row_compress=compressed)


def whole(path: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and peak of pyreadstat; for a process of its own."""
    import pandas as pd  # noqa: F401 - which it would import in the time of its reading
    import pyreadstat

    read = pyreadstat.read_dta if path.endswith(".dta") else pyreadstat.read_sav
    begin, cpu = perf_counter(), process_time()
    read(path, disable_datetime_conversion=True)
    return perf_counter() - begin, process_time() - cpu, read_peak_mib()


def chunks(path: str) -> tuple[float, float, float, float]:
    """Seconds, processor seconds, own peak and the worker's; for a process of its own."""
    from dppca.owner.records.file_locations import local_files
    from dppca.owner.records.sources import Wanted

    begin, cpu = perf_counter(), process_time()
    source = local_files(Path(path)).open()
    n_rows = sum(len(arrays[0]) for arrays in source.read(Wanted(source.names, 1 << 15)))
    seconds = perf_counter() - begin
    assert n_rows == source.n_rows
    worker = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = process_time() - cpu + worker.ru_utime + worker.ru_stime
    return seconds, total, read_peak_mib(), worker.ru_maxrss / 1024
