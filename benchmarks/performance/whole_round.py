"""A whole round with a real curator, beside bare gRPC that moves and computes the same."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.performance.bare import started
from benchmarks.performance.federation import Children, CuratorProcess, make_study, owner_name
from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable

TITLE = "The whole round"
ABOUT = """
From the moment every owner holds its release to the moment every owner holds the components: mutual
TLS on loopback, every owner and the curator a process of its own. The floor is one bare gRPC stream
an owner with the same certificates that moves the same bytes to a server which adds the vectors up,
takes `eigh` of the covariance and sends the arrays back. What the curator does on top: signatures,
digests, caps, a file and a transaction made durable for every contribution, the simulated noise
edge, a sealed receipt. A ratio of 0.5 means that it takes twice the floor.
"""

_MODULE = "benchmarks.performance.round_party"
_COMPONENTS = 20


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both sizes of the target, or one tiny one."""
    sizes = [(2, 12)] if plan.quick else [(3, 500), (10, 1000)]
    rows: list[tuple[Cell, ...]] = []
    for owners, columns in sizes:
        plan.say(f"{owners} owners, {columns} columns")
        mine, bare = _medians(plan.scratch / f"{owners}-{columns}", owners, columns, plan.rounds)
        rows.append((owners, columns, mine, bare, bare / mine))
    return [
        FigureTable(
            "Seconds of a round.",
            ("owners", "columns", "DPPCA", "bare gRPC", "ratio"),
            tuple(rows),
        )
    ]


def _medians(folder: Path, owners: int, columns: int, rounds: int) -> tuple[float, float]:
    runs = iter(range(10_000))
    with CuratorProcess(folder) as federation:
        timings = time_subjects(
            [
                BenchmarkSubject(
                    "ours", lambda: _ours(federation, folder, next(runs), owners, columns)
                ),
                BenchmarkSubject(
                    "floor", lambda: _floor(federation, folder, next(runs), owners, columns)
                ),
            ],
            rounds=rounds,
        )
    return timings["ours"].median_s, timings["floor"].median_s


def _ours(federation: CuratorProcess, folder: Path, run: int, owners: int, columns: int) -> float:
    study = make_study(f"round-{run}", owners=owners, columns=columns, components=_COMPONENTS)
    federation.create(study)
    document = folder / f"study-{run}.json"
    document.write_bytes(study.canonical_bytes())
    return Children(
        [
            [
                *(sys.executable, "-m", _MODULE, "ours", federation.address),
                *(str(federation.enrol(owner_name(number))), str(document), str(number), str(run)),
            ]
            for number in range(owners)
        ]
    ).go()


def _floor(federation: CuratorProcess, folder: Path, run: int, owners: int, columns: int) -> float:
    study = make_study("floor", owners=owners, columns=columns, components=_COMPONENTS)
    size = 8 * study.table.layout.n_entries
    port_file = folder / f"floor-{run}"
    command = [
        *(
            sys.executable,
            "-m",
            _MODULE,
            "server",
            str(federation.curator.credentials),
            str(port_file),
        ),
        *(str(owners), str(columns), str(min(_COMPONENTS, columns - 1))),
    ]
    with started(command, port_file) as address:
        return Children(
            [
                [
                    *(sys.executable, "-m", _MODULE, "floor", address),
                    *(str(federation.enrol(owner_name(number))), str(size)),
                ]
                for number in range(owners)
            ]
        ).go()
