"""What simulations have on an engine, and the removal of what a killed one left there.

A run that is killed with SIGKILL, or whose machine goes down, cannot remove anything. Its things
carry the machine and the process that made them, so that anybody can tell later:

running
    The process lives on this machine: another terminal's simulation, perhaps.
left
    It has ended.
elsewhere
    It was started on another machine (or in a container) that uses the same engine.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import docker

from dppca.common.errors import EngineError
from dppca.deploy.simulation.containers.removal import (
    LABEL_PROCESS,
    LABEL_RUN,
    Things,
    remove_run,
    things,
)


class RunState(StrEnum):
    """Whether a run's process lives."""

    RUNNING = "running"
    LEFT = "left"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class Leftover:
    """What one run has on the engine.

    Attributes
    ----------
    run
        Its identifier; the names of its things begin with ``dppca-RUN-``.
    process
        ``MACHINE:PID`` of the simulation.
    """

    run: str
    process: str
    state: RunState
    containers: int
    networks: int
    volumes: int


def leftovers(client: docker.DockerClient) -> tuple[Leftover, ...]:
    """Every run that has anything on the engine, in the order of their identifiers."""
    labelled = things(client, LABEL_RUN)
    runs = sorted({(label[LABEL_RUN], label.get(LABEL_PROCESS, "")) for label in _labels(labelled)})
    return tuple(
        Leftover(
            run=run,
            process=process,
            state=find_state(process),
            containers=_count(labelled.containers, run),
            networks=_count(labelled.networks, run),
            volumes=_count(labelled.volumes, run),
        )
        for run, process in runs
    )


def find_state(process: str, *, lives: Callable[[int], bool] | None = None) -> RunState:
    """Whether a run's process lives, from its label."""
    machine, _, pid = process.rpartition(":")
    if machine != socket.gethostname() or not pid.isdecimal():
        return RunState.ELSEWHERE
    return RunState.RUNNING if (lives or _lives)(int(pid)) else RunState.LEFT


def hint(client: docker.DockerClient) -> str | None:
    """One line for somebody who may not know that a killed simulation left things; None if none."""
    left = [each for each in leftovers(client) if each.state is RunState.LEFT]
    if not left:
        return None
    names = ", ".join(each.run for each in left)
    return f"killed simulations left things on the engine ({names}): see `dppca-simulate clean`"


def remove_leftovers(
    client: docker.DockerClient, *, everything: bool = False
) -> tuple[Leftover, ...]:
    """Remove what ended runs left, or what all runs have; what was removed.

    Raises
    ------
    EngineError
        Something could not be removed; the others were.
    """
    chosen = [each for each in leftovers(client) if everything or each.state is RunState.LEFT]
    refused: list[EngineError] = []
    for each in chosen:
        try:
            remove_run(client, each.run)
        except EngineError as error:
            refused.append(error)
    if refused:
        raise EngineError("; ".join(map(str, refused))) from refused[0]
    return tuple(chosen)


def _labels(found: Things) -> list[dict[str, str]]:
    return [read_labels(thing) for thing in (*found.containers, *found.networks, *found.volumes)]


def read_labels(thing: object) -> dict[str, str]:
    """The labels of an object of the Docker SDK, as the engine lists it."""
    attributes = getattr(thing, "attrs", {})
    return dict(attributes.get("Labels") or {})


def _count(kind: tuple[object, ...], run: str) -> int:
    return sum(read_labels(thing).get(LABEL_RUN) == run for thing in kind)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
