"""What is asked of a container engine and what it answers: values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume of the run, by its short name, as a container sees it."""

    volume: str
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """An end of a network: which, at which address, under which further names."""

    network: str
    address: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What one container may use: bytes of memory and of /tmp, cores, processes."""

    memory_bytes: int = 1 << 30
    tmp_bytes: int = 256 << 20
    cpus: float = 1.0
    processes: int = 128


@dataclass(frozen=True, slots=True)
class Container:
    """A container to make.

    Attributes
    ----------
    name
        Its party; the engine's name for it has the run before it.
    command
        Argument list of its first process, which an init looks after.
    links
        Its networks; without any it has no network at all.
    """

    name: str
    image: str
    command: Sequence[str]
    mounts: Sequence[Mount] = ()
    links: Sequence[Link] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Done:
    """A command in a container, ended: its exit code, what it said, how long it took.

    An exit code above 128 is 128 plus a signal: 137 means killed.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes over all networks since a container's start."""

    received: int
    sent: int
