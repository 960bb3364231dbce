"""A whole round with a real curator, beside bare gRPC that moves and computes the same."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from benchmarks.performance.federation import Children, CuratorProcess, make_study
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.round_party import started
from dppca.common.study import Study

TITLE = "The whole round"
ABOUT = """
From the moment every owner holds its release to the moment every owner holds the components: mutual
TLS on loopback, every owner and the curator a process of its own. The floor is one bare gRPC stream
an owner with the same certificates that moves the same bytes to a server which adds the vectors up,
takes `eigh` of the covariance and sends the arrays back. What the curator does on top: signatures,
digests, caps, a file and a transaction made durable for every contribution, the simulated noise
edge, a sealed receipt. A ratio of 0.5 means that it takes twice the floor.
"""

_COMPONENTS = 20


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Both sizes of the target, or one tiny one."""
    sizes = [(2, 12)] if plan.quick else [(3, 500), (10, 1000)]
    return [
        FigureTable(
            "Seconds of a round.",
            ("owners", "columns", "DPPCA", "bare gRPC", "ratio"),
            tuple(_race(plan, *size) for size in sizes),
        )
    ]


def _race(plan: BenchmarkPlan, owners: int, columns: int) -> tuple[Cell, ...]:
    plan.say(f"{owners} owners, {columns} columns")
    runs, folder = count(), plan.scratch / f"{owners}-{columns}"
    with CuratorProcess(folder) as federation:

        def study(number: int) -> Study:
            size = {"owners": owners, "columns": columns, "components": _COMPONENTS}
            return make_study(f"round-{number}", **size)

        def ours() -> float:
            number = next(runs)
            return federation.go("released", study(number), number, {})

        def floor() -> float:
            return _floor(federation, study(0), folder / f"floor-{next(runs)}")

        mine, bare = plan.race({"ours": ours, "floor": floor}).values()
    return owners, columns, mine.median_s, bare.median_s, bare.median_s / mine.median_s


def _floor(federation: CuratorProcess, study: Study, port_file: Path) -> float:
    layout, rule = study.table.layout, study.component_rule
    size = (len(study.owners), layout.n_columns, rule.count)
    with started("server", federation.curator.credentials, port_file, *size) as address:
        return Children(
            ["floor", address, federation.enrol(name), 8 * layout.n_entries]
            for name in study.owners
        ).go()
