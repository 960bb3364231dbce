"""The daemon: serve, settle what is due, stop gently.

On SIGTERM or SIGINT: the health service says NOT_SERVING, waiting calls are answered, new ones are
refused, running ones may finish within the grace period, and the store is closed. On SIGKILL
nothing is lost either (`curator.store`): the next start settles what was due.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from common.errors import SettingError
from common.proof.signatures import signer_of
from common.transport.channels import SERVER_OPTIONS, reloading_server_credentials
from curator.config import DaemonConfig
from curator.endpoint import Endpoint
from curator.gate import Gate
from curator.log import note
from curator.metrics import Metrics
from curator.service import SERVICE_NAMES, add_services
from curator.service.door import Door
from curator.service.meter import Meter
from curator.store import SqliteStore
from curator.studies import Studies, utc_now
from curator.supervisor import notify, notify_alive

HANG_S = 60.0
"""How long the event loop may stand still before the process counts as hung."""


def serve(config: DaemonConfig) -> None:
    """Run until SIGTERM or SIGINT.

    Raises
    ------
    IdentityError
        The credentials are not a curator's, or out of date.
    StoreVersionError
        A newer version of the software wrote the store; it is unchanged.
    StoreError
        The state folder is in use or cannot be written.
    SettingError
        The address cannot be listened on.
    """
    asyncio.run(_serve(config))


async def _serve(config: DaemonConfig) -> None:
    gate = Gate(config.credentials)
    store = SqliteStore(config.state)
    if store.upgraded is not None and store.upgraded.before:
        note(
            "store upgraded",
            before=store.upgraded.before,
            after=store.upgraded.after,
            copy=str(store.upgraded.copy),
        )
    studies = Studies(store, lambda: signer_of(gate.credentials))
    metrics = Metrics()
    metrics.watch(
        store,
        ready=lambda: studies.serving,
        writable=lambda: studies.writable,
        expiries=lambda: {"curator": gate.expires},
        now=utc_now,
    )
    try:
        server = grpc.aio.server(
            interceptors=(Meter(metrics), Door(gate, max_calls=config.limits.max_calls_per_party)),
            options=SERVER_OPTIONS,
            maximum_concurrent_rpcs=config.limits.max_calls,
        )
        add_services(server, studies, config.limits)
        doctor = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(doctor, server)
        reflection.enable_server_reflection(
            (*SERVICE_NAMES, health.SERVICE_NAME, reflection.SERVICE_NAME), server
        )
        address = f"{config.host}:{config.port}"
        try:
            port = server.add_secure_port(
                address, reloading_server_credentials(lambda: gate.credentials)
            )
        except RuntimeError as error:
            message = f"cannot listen on {address}: choose another --listen"
            raise SettingError(message) from error
        await server.start()
        note("serving", address=f"{config.host}:{port}", orphans_removed=store.orphans_removed)
        with _endpoint(config, metrics, studies) as pulse:
            await _until_stopped(config, studies, gate, doctor, pulse, f"{config.host}:{port}")
            note("draining", grace_s=config.grace_s)
            await doctor.enter_graceful_shutdown()
            await studies.drain()
            await server.stop(config.grace_s)
    finally:
        studies.close()
    note("stopped")


class _Pulse:
    """When the event loop last turned; a process whose loop hangs is not alive."""

    def __init__(self) -> None:
        self._beat_s = time.monotonic()

    def beat(self) -> None:
        self._beat_s = time.monotonic()

    @property
    def live(self) -> bool:
        return time.monotonic() - self._beat_s < HANG_S


@contextmanager
def _endpoint(config: DaemonConfig, metrics: Metrics, studies: Studies) -> Iterator[_Pulse]:
    """Metrics and probes over HTTP while the block runs, where they are wanted."""
    pulse = _Pulse()
    if config.metrics_port is None:
        yield pulse
        return
    endpoint = Endpoint(
        config.metrics_host,
        config.metrics_port,
        metrics.registry,
        ready=lambda: studies.serving,
        live=lambda: pulse.live,
    )
    endpoint.start()
    try:
        note("metrics", address=f"{config.metrics_host}:{endpoint.port}")
        yield pulse
    finally:
        endpoint.close()


async def _until_stopped(
    config: DaemonConfig,
    studies: Studies,
    gate: Gate,
    doctor: health.aio.HealthServicer,
    pulse: _Pulse,
    address: str,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if config.port_file is not None:
        await asyncio.to_thread(_announce, config.port_file, address)
    async with asyncio.TaskGroup() as tasks:
        settling = tasks.create_task(studies.run(tick_s=config.tick_s))
        reporting = tasks.create_task(_report_health(studies, doctor, pulse, config.tick_s))
        watching = tasks.create_task(_watch_credentials(gate, config.tick_s))
        notify("READY=1")
        await stop.wait()
        notify("STOPPING=1")
        for task in (settling, reporting, watching):
            task.cancel()


async def _report_health(
    studies: Studies, doctor: health.aio.HealthServicer, pulse: _Pulse, tick_s: float
) -> None:
    states = health_pb2.HealthCheckResponse
    while True:
        pulse.beat()
        notify_alive()
        status = states.SERVING if studies.serving else states.NOT_SERVING
        for service in ("", *SERVICE_NAMES):
            await doctor.set(service, status)
        await asyncio.sleep(tick_s)


async def _watch_credentials(gate: Gate, tick_s: float) -> None:
    while True:
        await asyncio.to_thread(gate.refresh)
        await asyncio.sleep(tick_s)


def _announce(path: Path, address: str) -> None:
    """Write the address at once and whole: whoever polls the file never reads half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(f"{address}\n")
        draft.replace(path)
    except OSError as error:
        message = f"cannot write the port file {path}: {error.strerror}"
        raise SettingError(message) from error
