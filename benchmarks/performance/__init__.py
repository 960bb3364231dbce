"""Timings, each beside something real that does the same work in the same run.

::

    python -m benchmarks.performance NAME ... [--quick] [--repeat N] [--json FILE] [--write]
    make bench                       all of them, written to docs/evidence and the page

A benchmark is a module with a `TITLE`, a text `ABOUT` it, and ``measure(plan) -> list[Table]``
(`registry.Benchmark`); its name is added to `registry.BENCHMARKS`. It times contestants with
`BenchmarkPlan.race`, whose rounds alternate between them, so that other work on the machine slows
all alike; medians and their ratios are what is reported. With `BenchmarkPlan.quick` it runs in a
second or so at sizes that say nothing about speed: that is what the tests run.
"""

import dppca.common.transport  # noqa: F401 - before any module here imports gRPC, for TLS 1.3
