"""Metrics of a running curator, for Prometheus.

Every label has few values that this software knows beforehand: states of a study, names of RPCs,
status codes, classes of errors. Names of owners and studies, and other text that a caller chooses,
are never labels: a caller could make series without end, and readers of the metrics would learn
who takes part in which study. No metric is computed from a row, and rows are not counted.

Gauges of stored data are read from the store at each scrape, so that they are right after a
restart; counters of events start at 0 with the process. A caller that fails the TLS handshake has
made no call and is not counted among the calls.

Reference: Prometheus, "Metric and label naming" and "Instrumentation".
"""

import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import StoreError, error_kinds
from dppca.curator.store import SqliteStore

PREFIX = "dppca_curator"
_SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0)
"""Bounds of the histogram: a short call takes milliseconds, waiting for a result minutes."""


class Metrics:
    """Series of one daemon, in their own registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the time at which a series began says nothing of a curator
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        self._calls = Counter(
            f"{PREFIX}_calls",
            "Calls that ended, by RPC and gRPC status code.",
            ["method", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            f"{PREFIX}_call_seconds",
            "Duration of calls in seconds, waiting for others included.",
            ["method"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._refusals = Counter(
            f"{PREFIX}_refusals",
            "Calls that ended with an error, by its class (docs/reference/errors.md).",
            ["reason"],
            registry=self.registry,
        )
        for kind in error_kinds():
            self._refusals.labels(kind.__name__)
        self._received = Counter(
            f"{PREFIX}_received_bytes",
            "Bytes of the messages received, before TLS and framing.",
            registry=self.registry,
        )
        self._sent = Counter(
            f"{PREFIX}_sent_bytes",
            "Bytes of the messages sent, before TLS and framing.",
            registry=self.registry,
        )

    def ended(self, method: str, *, code: str, reason: str | None, seconds: float) -> None:
        """Count a call that ended, with its gRPC status code and its error's class, if any."""
        self._calls.labels(method, code).inc()
        self._seconds.labels(method).observe(seconds)
        if reason is not None:
            self._refusals.labels(reason).inc()

    def received(self, n_bytes: int) -> None:
        """Count a received message."""
        self._received.inc(n_bytes)

    def sent(self, n_bytes: int) -> None:
        """Count a message to send."""
        self._sent.inc(n_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """Contents of a store and the state of its daemon, asked for at each scrape.

    ``unready`` says why owners cannot use the daemon, and is empty if they can; ``writable``
    returns True if the last write to the store succeeded; ``stopped`` returns the number of studies
    that a defect stopped, ``computing`` of those that are computed and of those that wait for a
    place; ``expiries`` returns when each certificate in use expires, by names such
    as ``curator``; ``clock_jump`` how far the clock has jumped, None while it is believed. Times
    are aware.
    """

    store: SqliteStore
    unready: Callable[[], str]
    writable: Callable[[], bool]
    stopped: Callable[[], int]
    computing: Callable[[], tuple[int, int]]
    expiries: Callable[[], Mapping[str, datetime]]
    now: Callable[[], datetime]
    clock_jump: Callable[[], timedelta | None]


class StateCollector(Collector):
    """Gauges of a daemon's state that are computed at each scrape."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state
        self._measuring = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Return nothing: collecting in advance would read the disk."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        records = self._state.store.studies()
        states = Tally(record.state for record in records)
        studies = GaugeMetricFamily(f"{PREFIX}_studies", "Studies by state.", labels=["state"])
        for state in StudyState:
            studies.add_metric([state.value], states[state])
        yield studies
        yield _gauge(
            "contributions",
            "Contributions stored, of all studies.",
            sum(len(record.contributions) for record in records),
        )
        yield _gauge(
            "openings",
            "Openings of masked sums stored, of all studies.",
            sum(len(record.openings) for record in records),
        )
        yield _gauge(
            "publications",
            "Sets of synthetic rows stored, of all studies.",
            sum(len(record.publications) for record in records),
        )
        yield _gauge(
            "ready",
            "1 while owners can connect and are served: `/ready` says why not.",
            not self._state.unready(),
        )
        jump = self._state.clock_jump() or timedelta(0)
        yield _gauge(
            "clock_jump_seconds",
            "How far the clock has jumped; 0 while it is believed.",
            jump.total_seconds(),
        )
        yield _gauge(
            "store_writable",
            "1 where the store could be written last time.",
            self._state.writable(),
        )
        yield _gauge(
            "studies_stopped",
            "Studies that wait on because a defect stopped the work on them.",
            self._state.stopped(),
        )
        running, waiting = self._state.computing()
        yield _gauge("studies_computing", "Studies whose result is being computed.", running)
        yield _gauge(
            "studies_waiting_to_compute", "Studies that wait for others to be computed.", waiting
        )
        yield from self._sizes()
        expiry = GaugeMetricFamily(
            f"{PREFIX}_certificate_expiry_seconds",
            "Seconds until a certificate in use expires; negative afterwards.",
            labels=["certificate"],
        )
        now = self._state.now()
        for name, when in sorted(self._state.expiries().items()):
            expiry.add_metric([name], (when - now).total_seconds())
        yield expiry
        yield InfoMetricFamily(
            f"{PREFIX}_build", "Version of the software.", {"version": version("dppca")}
        )

    def _sizes(self) -> Iterator[Metric]:
        """Yield nothing if the disk does not answer: a scrape must still report the rest."""
        if not self._measuring.acquire(blocking=False):
            return  # another scrape waits for the disk
        try:
            size = self._state.store.size()
        except StoreError:
            return  # `store_writable` reports it, and the log the reason
        finally:
            self._measuring.release()
        sizes = GaugeMetricFamily(
            f"{PREFIX}_store_bytes",
            "Bytes of the store's files, by what they hold.",
            labels=["part"],
        )
        for part, n_bytes in (
            ("database", size.database_bytes),
            ("uploads", size.upload_bytes),
            ("arriving", size.arriving_bytes),
        ):
            sizes.add_metric([part], n_bytes)
        yield sizes
        yield _gauge(
            "store_free_bytes", "Bytes that the store's disk still takes.", size.free_bytes
        )


def _gauge(name: str, help_text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", help_text, value=value)
