"""What a study of m owners and d columns takes: seconds, bytes, memory, and a formula for them."""

import time
from collections.abc import Sequence

import numpy as np

from benchmarks.environments import read_peak_mib
from benchmarks.performance.crowd import await_components, make_senders, send_all
from benchmarks.performance.federation import CuratorProcess, make_study
from benchmarks.performance.machine import run_apart
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from dppca.common.kernel.moments.moments import compute_moments, empty_moments
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode

TITLE = "Sizing"
ABOUT = """
The curator: a real daemon, m simulated owners in one process with a connection each, sixteen at
once; seconds until all contributions are acknowledged and from there until the components are
ready, bytes each owner sends and fetches, the daemon's peak memory. An owner: a process that codes
n rows of d numerics held in memory, forms the moments and draws the noise; its peak memory is
without those rows. The formulas are fitted to these very figures by least squares in relative
error; their quality is the largest relative error.
"""

_CURATOR = (
    (2, 16),
    (10, 128),
    (100, 128),
    (1000, 16),
    (1000, 128),
    (100, 512),
    (10, 1024),
    (3, 2048),
    (2, 4096),
)
_VALUES = 1 << 21  # coded at once
_OWNER = ((100_000, 16), (100_000, 128), (400_000, 128), (100_000, 512), (20_000, 2048))


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both tables and both formulas."""
    curator = [_study(plan, m, d) for m, d in ([(2, 8), (4, 12)] if plan.quick else _CURATOR)]
    owner = [_owner(plan, n, d) for n, d in ([(500, 8), (800, 12)] if plan.quick else _OWNER)]
    receive = _fit([(1, m, m * d * d) for m, d, *_ in curator], [row[2] for row in curator])
    compute = _fit(
        [(1, m, m * d * d, d**3, _edge_work(d)) for m, d, *_ in curator],
        [row[3] for row in curator],
    )
    one_pass = _fit([(1, n * d, n * d * d) for n, d, *_ in owner], [row[2] for row in owner])
    return [
        FigureTable(
            "The curator.",
            ("m", "d", "s to receive", "s to decompose", "bytes up", "bytes down", "peak MiB"),
            tuple(curator),
        ),
        FigureTable("An owner.", ("n", "d", "s", "rows/s", "peak MiB"), tuple(owner)),
        FigureTable(
            "Seconds, fitted: coefficients of the terms named, and the largest relative error.",
            ("what", "terms", "first", "second", "third", "fourth", "fifth", "error"),
            (
                ("receive", "1, m, m d^2", *receive),
                ("decompose", "1, m, m d^2, d^3, edge", *compute),
                ("an owner", "1, n d, n d^2", *one_pass),
            ),
        ),
    ]


def _study(
    plan: BenchmarkPlan, owners: int, columns: int
) -> tuple[int, int, float, float, int, int, float]:
    plan.say(f"m = {owners}, d = {columns}")
    folder = plan.scratch / f"{owners}-{columns}"
    study = make_study("sizing", owners=owners, columns=columns, components=20)
    with CuratorProcess(folder) as federation:
        federation.create(study)
        senders = make_senders(federation, study, folder / "releases")
        received = send_all(federation.address, senders, at_once=16, connected=False)
        progress, decomposed = await_components(federation.address, study, senders[0])
        peak = federation.peak_mib()
    up = 8 * study.table.layout.n_entries
    for sender in senders:
        sender.path.unlink()
    return owners, columns, received, decomposed, up, progress.total_bytes, peak


def _owner(plan: BenchmarkPlan, rows: int, columns: int) -> tuple[int, int, float, float, float]:
    plan.say(f"n = {rows}, d = {columns}")
    seconds, peak = run_apart(run_owner, rows, columns)
    return rows, columns, seconds, rows / seconds, peak


def run_owner(n_rows: int, n_columns: int) -> tuple[float, float]:
    """Code, multiply, add noise, in a process of its own: seconds, and its peak memory in MiB.

    The rows are made batch by batch and not counted.
    """
    study = make_study("owner", owners=1, columns=n_columns, components=2)
    layout, rng = study.table.layout, np.random.default_rng(0)
    batch = max(1, _VALUES // n_columns)
    moments, seconds = empty_moments(layout), 0.0
    for start in range(0, n_rows, batch):
        rows = rng.uniform(-1, 1, (n_columns, min(batch, n_rows - start)))
        begin = time.perf_counter()
        moments = moments.merge(compute_moments(encode(study.table, list(rows)), layout))
        seconds += time.perf_counter() - begin
    begin = time.perf_counter()
    add_noise(moments.packed, calibrate(study), entropy=OperatingSystemEntropy())
    return seconds + time.perf_counter() - begin, read_peak_mib()


def _edge_work(columns: int) -> int:
    """As `dppca.common.analysis.spectrum.noise_edge` has it."""
    draws = max(8, min(200, 400_000_000 // columns**3))
    return draws * columns ** (3 if columns < 200 else 2)


def _fit(terms: Sequence[tuple[int, ...]], seconds: list[float]) -> tuple[Cell, ...]:
    """Coefficients, none negative, least in relative error; and the largest such error.

    Five places for coefficients: those that are not used are empty.
    """
    from scipy.optimize import nnls

    target = np.array(seconds)
    weighted = np.array(terms, float) / target[:, None]
    scale = weighted.max(axis=0)
    coefficients = nnls(weighted / scale, np.ones(len(target)))[0] / scale
    error = float(np.abs(weighted @ coefficients - 1).max())
    unused = [None] * (5 - len(coefficients))
    return (*(float(value) for value in coefficients), *unused, error)
