"""Labels of what a run makes, and its removal by them: containers, then networks, then volumes.

A run is removed until a look finds nothing of it: an engine under load answers some removals with
"in progress" or "has active endpoints", and takes them a moment later. What is still there after
`PATIENCE_S` is an error that says so; nothing is left in silence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import NotFound

from dppca.common.errors import DppcaError, EngineError
from dppca.deploy.simulation.containers.failures import translated

LABEL_RUN = "org.dppca.simulation.run"
LABEL_PROCESS = "org.dppca.simulation.process"
PATIENCE_S = 120.0
_PAUSE_S = 0.5
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Things:
    """What the engine holds under one label: objects of the Docker SDK."""

    containers: tuple[Any, ...]
    networks: tuple[Any, ...]
    volumes: tuple[Any, ...]

    def __bool__(self) -> bool:
        return bool(self.containers or self.networks or self.volumes)

    def __str__(self) -> str:
        return (
            f"{len(self.containers)} containers, {len(self.networks)} networks, "
            f"{len(self.volumes)} volumes"
        )


def things(client: docker.DockerClient, label: str) -> Things:
    """All that carries a label, ``KEY`` or ``KEY=VALUE``; running or not."""
    filters: dict[str, str | list[str] | bool] = {"label": label}
    with translated("looking for what a simulation made"):
        return Things(
            # Sparse: a container that goes while we look is no error.
            tuple(client.containers.list(all=True, filters=filters, sparse=True)),
            tuple(client.networks.list(filters=filters)),
            tuple(client.volumes.list(filters=filters)),
        )


def remove_run(client: docker.DockerClient, run: str) -> Things:
    """Remove all that one run made; what there was.

    Raises
    ------
    EngineError
        Something is still there after `PATIENCE_S`, or the engine has gone.
    """
    label = f"{LABEL_RUN}={run}"
    first = left = things(client, label)
    deadline = time.monotonic() + PATIENCE_S
    refusal: DppcaError | None = None
    while left:
        refusal = _remove(left) or refusal
        left = things(client, label)
        if left and time.monotonic() > deadline:
            raise EngineError(
                f"run {run} could not be removed: {left} are left ({refusal}); "
                "`dppca-simulate clean` tries again"
            ) from refusal
        if left:
            time.sleep(_PAUSE_S)
    return first


def _remove(found: Things) -> DppcaError | None:
    """One attempt at everything; the last refusal, if any."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        refused = [
            *pool.map(lambda c: _tried(lambda: c.remove(force=True, v=True), c), found.containers),
            *pool.map(lambda n: _tried(n.remove, n), found.networks),
            *pool.map(lambda v: _tried(lambda: v.remove(force=True), v), found.volumes),
        ]
    return next((error for error in reversed(refused) if error is not None), None)


def _tried(removal: Callable[[], object], thing: Any) -> DppcaError | None:
    try:
        with _unless_gone(), translated(f"removing {thing.attrs.get('Name') or thing.id}"):
            removal()
    except DppcaError as error:
        return error
    return None


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except EngineError as error:
        if not isinstance(error.__cause__, NotFound):
            raise
