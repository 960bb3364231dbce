"""A thousand owners at one curator, beside bare gRPC streams of the same bytes into nothing."""

from benchmarks.performance.crowd import await_components, make_senders, send_all, throw_all
from benchmarks.performance.federation import CuratorProcess, make_study
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.round_party import started_sink

TITLE = "The curator under load"
ABOUT = """
Every owner has a certificate and a connection of its own, over mutual TLS on loopback, and sends a
contribution of its own; all come from one process. The curator writes each to disk and makes it
durable before it acknowledges it. The floor is a bare gRPC server in a process of its own that
takes streams of the same messages and forgets them. Both get the same bytes over as many
connections from the same code; messages are made and signed, and connections opened, before the
clock runs. The floor is the mean of two crowds, one before and one after the curator's, which is
sent once: the curator takes a contribution once. Peak memory is that of the daemon: it grows by the
owners' certificates and receipts, not by their contributions.
"""


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Throughput, memory, and 64 at once."""
    columns = 12 if plan.quick else 512
    crowds = [(4, 2), (6, 6)] if plan.quick else [(100, 16), (1000, 16), (64, 64)]
    rows = [_crowd(plan, owners, columns, at_once) for owners, at_once in crowds]
    return [
        FigureTable(
            f"Contributions of {columns} columns: seconds until all are acknowledged, megabytes a "
            "second, and what the daemon took in all.",
            (
                *("owners", "at once", "megabytes", "s", "MB/s", "bare MB/s", "ratio"),
                *("accepted", "s to components", "peak MiB"),
            ),
            tuple(rows),
        )
    ]


def _crowd(plan: BenchmarkPlan, owners: int, columns: int, at_once: int) -> tuple[Cell, ...]:
    plan.say(f"{owners} owners, {at_once} at once")
    folder = plan.scratch / f"crowd-{owners}"
    study = make_study("crowd", owners=owners, columns=columns, components=20)
    megabytes = owners * 8 * study.table.layout.n_entries / 1e6
    with CuratorProcess(folder) as federation:
        federation.create(study)
        senders = make_senders(federation, study, folder / "releases")
        port_file, credentials = folder / "bare", federation.curator.credentials
        with started_sink(credentials, port_file) as address:
            floor = throw_all(address, senders, at_once=at_once)
            taken = send_all(federation.address, senders, at_once=at_once)
            progress, decomposed = await_components(federation.address, study, senders[0])
            floor = (floor + throw_all(address, senders, at_once=at_once)) / 2
        peak = federation.peak_mib()
    for sender in senders:
        sender.path.unlink()
    return (
        *(owners, at_once, megabytes, taken, megabytes / taken, megabytes / floor, floor / taken),
        *(len(progress.contributed), decomposed, peak),
    )
