"""``dppca-curator serve`` that kills itself (SIGKILL) at one point: DIE_AT names it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from dppca.curator import cli
from dppca.curator.service import coordinator
from dppca.curator.store.blobs import Blobs, Spool
from dppca.curator.store.sqlite import SqliteStore


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str) -> None:
    setattr(owner, name, die)


def after(owner: Any, name: str, *, call: int = 1) -> None:
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def wrapped(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        answer = original(*arguments, **named)
        calls += 1
        if calls == call:
            die()
        return answer

    setattr(owner, name, wrapped)


POINTS: dict[str, Callable[[], None]] = {
    "bytes arriving": lambda: after(Spool, "write", call=2),
    "bytes complete": lambda: before(Spool, "sync"),
    "bytes durable": lambda: after(Spool, "sync"),
    "bytes named": lambda: after(Blobs, "keep"),
    "contribution stored": lambda: after(SqliteStore, "save"),
    "last contribution stored": lambda: before(coordinator, "aggregate"),
    "result computed": lambda: after(coordinator, "aggregate"),
    "result named": lambda: after(Blobs, "keep"),
    "result stored": lambda: after(SqliteStore, "save"),
    "never": lambda: None,
}

if __name__ == "__main__":
    POINTS[os.environ["DIE_AT"]]()
    cli.main()
