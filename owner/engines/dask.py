"""Engine on a Dask cluster of the site's own.

The client talks to the scheduler, workers read the parts, and each answer is fetched and merged as
it arrives. Off this machine every connection is TLS, with the three files of the site's folder
``cluster`` (``ca.pem``, ``certificate.pem``, ``key.pem``), which a site makes for its cluster and
no curator signs; workers with unencrypted connections to other machines are refused.

Dask gives the parts of a lost worker to others (``allowed-failures``). A cluster without any
worker for `NO_WORKER_S`, or without a new part for `STALL_S`, ends the pass with an error.

Limits: every client that reaches the scheduler can run code in the cluster, and the scheduler's
messages are pickles that this client reads: scheduler and workers are trusted as the site's own.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import dask
from distributed import Client, Future, Security
from distributed.scheduler import KilledWorker

from dppca.common.kernel.documents.names import is_loopback
from dppca.common.kernel.durable.files import CA, CERTIFICATE, KEY
from dppca.common.kernel.errors import DataError, SettingError, UnreachableError
from dppca.owner.engines.cluster import ClusterEngine, require_alike
from dppca.owner.engines.kernel import Answer, Work, answer_part, fingerprint_document
from dppca.owner.engines.parts import Part

CONNECT_S: Final = 30.0  # for a scheduler to answer
NO_WORKER_S: Final = 60.0
"""Longest time that a cluster may be without any worker."""
STALL_S: Final = 3600.0
"""Longest time without a new part."""
_POLL_S: Final = 0.02  # between two looks at answers
_LOOK_S: Final = 2.0  # between two looks at workers
_MOST_AGAIN: Final = 2
"""Times that a part is asked again whose task Dask has given up, though nobody has cancelled it: it
may, where a worker dies while an answer is on its way from it (distributed 2026.8.0, seen once)."""


@contextmanager
def open_dask(text: str, folder: Path) -> Iterator[DaskEngine]:
    """Connect to a scheduler, named as ``dask://HOST:PORT`` or ``tls://HOST:PORT``.

    ``folder`` holds the site's files for TLS. Raise `UnreachableError` if the scheduler does not
    answer, or not to this site's certificate; raise `SettingError` if one of the files is missing
    or readable by others.
    """
    scheme, _, address = text.partition("://")
    with _dask_settings():
        security = _security(folder) if scheme == "tls" else Security()
        try:
            client = Client(
                f"{'tls' if scheme == 'tls' else 'tcp'}://{address}",
                timeout=CONNECT_S,
                security=security,
                set_as_default=False,
                name="dppca",
            )
        except (OSError, TimeoutError, ValueError):  # Dask's message names addresses and files
            raise UnreachableError(
                f"no Dask scheduler answers at {text} within {CONNECT_S:.0f} s: check its address, "
                f"that it runs, and, for tls://, that the files in {folder} are of the "
                "same authority as its own"
            ) from None
        try:
            yield DaskEngine(client, text)
        finally:
            client.close(timeout=CONNECT_S)


class _Asked(NamedTuple):
    """A part and the task that works on it, asked ``again`` so many times."""

    part: Part
    again: int
    future: Future


class DaskEngine(ClusterEngine):
    """A `ClusterEngine` on a scheduler's workers, each slot a thread of a worker.

    For ``stall_s`` and ``no_worker_s`` see `STALL_S` and `NO_WORKER_S`.
    """

    def __init__(
        self,
        client: Client,
        title: str,
        *,
        stall_s: float = STALL_S,
        no_worker_s: float = NO_WORKER_S,
    ) -> None:
        self._client, self._title = client, title
        self._stall_s, self._no_worker_s = stall_s, no_worker_s

    @property
    def slots(self) -> int:
        """Threads of all workers."""
        return max(1, sum(self._workers().values()))

    def check(self) -> None:
        """Require safe connections and equal versions, code and canary (`ClusterEngine.check`).

        The scheduler is compared too: it reads the tasks that it hands on.
        """
        with self._translated_errors():
            self._client.wait_for_workers(1, timeout=self._no_worker_s)
            self._require_private(self._workers())
            try:
                scheduler = self._client.run_on_scheduler(fingerprint_document)
            except ImportError:
                scheduler = None
            fingerprints = self._client.run(fingerprint_document, on_error="return")
        for address, theirs in {"the scheduler": scheduler, **fingerprints}.items():
            require_alike(f"{address} of {self._title}", theirs)

    def run(self, parts: Sequence[Part], work: Work) -> Iterator[Answer]:
        """Answers for all parts as they arrive (`ClusterEngine.run`)."""
        name, work_json = uuid4().hex, work.to_json()

        def ask(part: Part, again: int = 0) -> _Asked:
            with self._translated_errors():
                key = f"dppca-{name}-{part.index}-{again}"
                future = self._client.submit(
                    answer_part, part.to_json(), work_json, key=key, pure=False
                )
            return _Asked(part, again, future)

        # Dask stops computing a released future and drops its result.
        waiting = [ask(part) for part in parts]
        try:
            yield from self._arriving(waiting, ask)
        finally:
            if waiting and self._client.status == "running":
                self._client.cancel([each.future for each in waiting], force=True)

    def _arriving(
        self, waiting: list[_Asked], ask: Callable[[Part, int], _Asked]
    ) -> Iterator[Answer]:
        """Yield answers as they arrive; ``waiting`` is emptied meanwhile."""
        arrived = looked = seen = time.monotonic()
        while waiting:
            done = [each for each in waiting if each.future.status != "pending"]
            for each in done:
                if each.future.status == "cancelled" and each.again < _MOST_AGAIN:
                    waiting[waiting.index(each)] = ask(each.part, each.again + 1)
                    continue
                answer = self._result(each.future)
                waiting.remove(each)
                arrived = time.monotonic()
                yield answer
            now = time.monotonic()
            if now - looked > _LOOK_S:
                looked = now
                with self._translated_errors():
                    workers = self._workers()
                self._require_private(workers)
                seen = now if workers else seen
            if now - seen > self._no_worker_s:
                raise DataError(
                    f"{self._title} has had no worker for {self._no_worker_s:.0f} s: start "
                    "workers that have this machine's dppca, and run the command again; nothing "
                    "was counted"
                )
            if now - arrived > self._stall_s:
                raise DataError(
                    f"no part came from {self._title} for {self._stall_s:.0f} s: look at its "
                    "workers and at the disk or store they read; nothing was counted"
                )
            if not done:
                time.sleep(_POLL_S)

    def _result(self, future: Future) -> Answer:
        """Answer of a task that has ended; Dask's message about a failed task is dropped.

        The task itself never raises, so a failure is one of its worker.
        """
        answer: Answer | None = None
        error: BaseException | None = None
        with self._translated_errors():
            if future.status == "error":
                error = future.exception(timeout=CONNECT_S)
            elif future.status in ("finished", "pending"):  # pending: lost after it had finished
                try:
                    answer = future.result(timeout=self._stall_s)
                except (ImportError, AttributeError, TypeError) as unread:  # of other code
                    error = unread
        if answer is not None:
            return answer
        if isinstance(error, ImportError | AttributeError | TypeError):
            require_alike(f"a worker of {self._title}", None)
        if isinstance(error, KilledWorker):
            raise DataError(
                f"workers of {self._title} died at the same part again and again: give them more "
                "memory or fewer threads; nothing was counted"
            )
        raise DataError(
            f"a part was not worked on by {self._title}: see whether its scheduler and workers "
            "were restarted, and run the command again; nothing was counted"
        )

    def _workers(self) -> dict[str, int]:
        threads: dict[str, int] = self._client.nthreads()
        return threads

    def _require_private(self, workers: Sequence[str] | dict[str, int]) -> None:
        """Refuse workers to which sums without noise would travel unencrypted."""
        for address in workers:
            parts = urlsplit(address)
            if parts.scheme != "tls" and not is_loopback(parts.hostname or ""):
                raise SettingError(
                    f"{self._title} has workers on other machines that do not use TLS, and sums "
                    "without noise could be read on the way: start scheduler and workers with "
                    "TLS, and name it tls://HOST:PORT"
                )

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translate Dask's connection errors into this project's; their text is left out."""
        try:
            yield
        except (OSError, TimeoutError, RuntimeError, ValueError) as error:
            if isinstance(error, SettingError | DataError):
                raise
        else:
            return
        raise UnreachableError(
            f"{self._title} does not answer as a Dask cluster with workers does: see whether "
            "scheduler and workers run, and run the command again; nothing was counted"
        ) from None


def _security(folder: Path) -> Security:
    """TLS settings with the site's files for its cluster; nothing is sent without TLS."""
    paths = {name: folder / name for name in (CA, CERTIFICATE, KEY)}
    for path in paths.values():
        if not path.is_file():
            raise SettingError(
                f"{path} is not there: tls:// needs {CA}, {CERTIFICATE} and {KEY} of this site's "
                f"cluster in {folder}"
            )
    if paths[KEY].stat().st_mode & 0o077:
        raise SettingError(f"{paths[KEY]} may be read by others: make it yours alone (chmod 600)")
    return Security(
        require_encryption=True,
        tls_ca_file=str(paths[CA]),
        tls_client_cert=str(paths[CERTIFICATE]),
        tls_client_key=str(paths[KEY]),
    )


@contextmanager
def _dask_settings() -> Iterator[None]:
    """Suppress version warnings, because `DaskEngine.check` compares versions; require TLS 1.3."""
    settings = {"distributed.comm.retry.count": 2, "distributed.comm.tls.min-version": 1.3}
    with warnings.catch_warnings(), dask.config.set(settings):
        warnings.simplefilter("ignore")
        yield
