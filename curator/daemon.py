"""The daemon: serve calls, settle what is due, stop gracefully.

On SIGTERM or SIGINT, the health service reports NOT_SERVING, waiting calls are answered, new ones
are refused, running ones may finish within the grace period, and the store is closed. SIGKILL loses
nothing either (`dppca.curator.store`): the next start settles what was due. SIGHUP ends nothing, at
the start neither: certificates and the revocation list are read again.
"""

import asyncio
import resource
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.durable.files import SHARED, write_file
from dppca.common.kernel.errors import SettingError
from dppca.common.transport.channels import (
    MAX_STREAMS,
    reloading_server_credentials,
    server_options,
)
from dppca.curator.config import DaemonConfig, Limits
from dppca.curator.observability.log import log_event
from dppca.curator.observability.metrics import DaemonState, Metrics, StateCollector
from dppca.curator.observability.metrics_server import MetricsServer
from dppca.curator.observability.systemd import notify, notify_alive
from dppca.curator.service import SERVICE_NAMES, add_services
from dppca.curator.service.authenticator import Authenticator
from dppca.curator.service.calls import AuthInterceptor, MetricsInterceptor
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.recent_refusals import RecentRefusals
from dppca.curator.service.watched_clock import WatchedClock
from dppca.curator.store import SqliteStore

HANG_S = 60.0
"""Longest pause of the event loop before the process counts as hung."""
OTHER_DESCRIPTORS = 256
"""File descriptors for the store, uploads and libraries, besides one for each connection."""
CONNECTIONS_OF_ADDRESS = 32
"""Connections that the proxy in front gives to one address (``deploy/proxy/haproxy.cfg``)."""


def serve(config: DaemonConfig) -> None:
    """Run until SIGTERM or SIGINT.

    Raise `IdentityError` if the credentials are not a curator's, or out of date;
    `StoreVersionError` if a newer version of the software wrote the store, which is unchanged;
    `StoreError` if the state folder is in use or cannot be written; `SettingError` if the address
    cannot be listened on, or the system allows fewer descriptors than needed.
    """
    asyncio.run(_serve(config))


async def _serve(config: DaemonConfig) -> None:
    asked_to_read = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked_to_read.set)
    provide_descriptors(config.limits)
    clock = WatchedClock()
    authenticator = Authenticator(config.credentials, clock=clock)
    store = SqliteStore(config.state)
    coordinator = StudyCoordinator(
        store,
        lambda: make_signer(authenticator.credentials),
        clock=clock,
        clock_held=lambda: clock.held is not None,
    )
    metrics, limits = Metrics(), config.limits
    refusals = RecentRefusals(clock)
    state = DaemonState(
        store=store,
        unready=lambda: _unready(coordinator, clock, authenticator),
        writable=lambda: coordinator.writable,
        stopped=lambda: coordinator.n_stopped,
        computing=lambda: coordinator.n_computing,
        expiries=lambda: authenticator.expiries,
        now=clock,
        clock_jump=lambda: clock.held,
    )
    metrics.registry.register(StateCollector(state))
    try:
        server = grpc.aio.server(
            interceptors=(
                MetricsInterceptor(metrics),
                AuthInterceptor(authenticator, limits, refusals),
            ),
            options=server_options(
                connections=limits.max_connections,
                calls=2 * max_rpcs(limits),
                handshake_s=limits.handshake_s,
            ),
            maximum_concurrent_rpcs=max_rpcs(limits),
        )
        add_services(server, coordinator, limits, refusals)
        health_service = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
        reflection.enable_server_reflection(
            (*SERVICE_NAMES, health.SERVICE_NAME, reflection.SERVICE_NAME), server
        )
        address = f"{config.host}:{config.port}"
        try:
            port = server.add_secure_port(
                address, reloading_server_credentials(lambda: authenticator.credentials)
            )
        except RuntimeError as error:
            raise SettingError(
                f"cannot listen on {address}: another program may use the port, or the address is "
                "not this machine's; choose another --listen"
            ) from error
        await server.start()
        log_event("serving", address=f"{config.host}:{port}", orphans_removed=store.orphans_removed)
        with _metrics_server(config, metrics, state.unready) as heartbeat:
            address = f"{config.host}:{port}"
            watching = partial(_watch_credentials, authenticator, asked_to_read, config.tick_s)
            await _until_stopped(config, coordinator, watching, health_service, heartbeat, address)
            log_event("draining", grace_s=config.grace_s)
            await health_service.enter_graceful_shutdown()
            await coordinator.drain()
            await server.stop(config.grace_s)
    finally:
        coordinator.close()
    log_event("stopped")


def _unready(
    coordinator: StudyCoordinator, clock: WatchedClock, authenticator: Authenticator
) -> str:
    """Say why an owner cannot use the daemon; empty if it can."""
    if not coordinator.writable:
        return "the store cannot be written: see the log"
    if not coordinator.serving:
        return "the daemon is stopping"
    if clock.held is not None:
        return "the clock has jumped: see the log"
    return authenticator.ended


def provide_descriptors(limits: Limits) -> None:
    """Raise the descriptor limit for all connections; or raise `SettingError` if it is too low."""
    needed = limits.max_connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (OSError, ValueError) as error:
        raise SettingError(
            f"--max-connections {limits.max_connections} needs {needed} open files and this process"
            f" may have {soft}: raise LimitNOFILE of the service, or `ulimit -n`, or allow fewer"
        ) from error


def max_rpcs(limits: Limits) -> int:
    """Calls that gRPC admits: streams of one address cannot fill the places of others."""
    return limits.max_calls + CONNECTIONS_OF_ADDRESS * MAX_STREAMS


class _Heartbeat:
    """Time of the event loop's last turn; a process whose loop hangs is not alive."""

    def __init__(self) -> None:
        self._beat_s = time.monotonic()

    def beat(self) -> None:
        self._beat_s = time.monotonic()

    @property
    def live(self) -> bool:
        return time.monotonic() - self._beat_s < HANG_S


@contextmanager
def _metrics_server(
    config: DaemonConfig, metrics: Metrics, unready: Callable[[], str]
) -> Iterator[_Heartbeat]:
    """Serve metrics and probes over HTTP while the block runs, if a port is set."""
    heartbeat = _Heartbeat()
    if config.metrics_port is None:
        yield heartbeat
        return
    server = MetricsServer(
        config.metrics_host,
        config.metrics_port,
        metrics.registry,
        unready=unready,
        live=lambda: heartbeat.live,
    )
    server.start()
    try:
        log_event("metrics", address=f"{config.metrics_host}:{server.port}")
        yield heartbeat
    finally:
        server.close()


async def _until_stopped(
    config: DaemonConfig,
    coordinator: StudyCoordinator,
    watch_credentials: Callable[[], Coroutine[None, None, None]],
    health_service: health.aio.HealthServicer,
    heartbeat: _Heartbeat,
    address: str,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if config.port_file is not None:
        await asyncio.to_thread(_write_port_file, config.port_file, address)
    async with asyncio.TaskGroup() as tasks:
        settling = tasks.create_task(coordinator.run(tick_s=config.tick_s))
        reporting = tasks.create_task(
            _report_health(coordinator, health_service, heartbeat, config.tick_s)
        )
        watching = tasks.create_task(watch_credentials())
        notify("READY=1")
        await stop.wait()
        notify("STOPPING=1")
        for task in (settling, reporting, watching):
            task.cancel()


async def _report_health(
    coordinator: StudyCoordinator,
    health_service: health.aio.HealthServicer,
    heartbeat: _Heartbeat,
    tick_s: float,
) -> None:
    states = health_pb2.HealthCheckResponse
    while True:
        heartbeat.beat()
        notify_alive()
        status = states.SERVING if coordinator.serving else states.NOT_SERVING
        for service in ("", *SERVICE_NAMES):
            await health_service.set(service, status)
        await asyncio.sleep(tick_s)


async def _watch_credentials(
    authenticator: Authenticator, asked: asyncio.Event, tick_s: float
) -> None:
    while True:
        if asked.is_set():
            asked.clear()
            await asyncio.to_thread(authenticator.reload)
            log_event("credentials read again", revoked=len(authenticator.revoked.serials))
        await asyncio.to_thread(authenticator.refresh)
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), tick_s)


def _write_port_file(path: Path, address: str) -> None:
    """Write the address atomically: a reader that polls the file never sees half of it."""
    try:
        write_file(path, f"{address}\n".encode(), mode=SHARED, durable=False)
    except OSError as error:
        raise SettingError(f"cannot write the port file {path}: {error.strerror}") from error
