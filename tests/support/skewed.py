"""A command of ours on a machine whose clock is wrong.

``skewed.py SECONDS now|signal|jump MODULE ARGUMENTS…`` runs ``MODULE`` like a separate process,
with every time that Python tells our code moved by so many seconds: from the start, or from the
first SIGUSR1 on, as if that time had passed. With ``jump`` it is the wall clock alone, and the
next SIGUSR1 sets it back.

It covers all decisions of the software by a clock. A party's own certificate is in date or not, a
study's deadline has passed or not, entries of a ledger and records of the curator carry a time. It
does not cover the date check inside the TLS handshake, which is C code and asks the kernel: the
other side's certificate is always judged by this machine's clock. A party whose own certificate has
the same term refuses before the handshake.
"""

import builtins
import datetime as dt
import runpy
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any


class _State:
    offset_s = 0.0
    passed_s = 0.0


_OURS = {"dppca", "__main__"}
_IMPORT = builtins.__import__
_REAL = dt.datetime
_REAL_TIME = time.time
_REAL_CLOCK = time.clock_gettime


class _Kind(type):
    """Makes times from C code count as `datetime`, which now names another class."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _REAL)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _REAL)


class _Skewed(_REAL, metaclass=_Kind):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> Any:
        return _REAL.now(tz) + dt.timedelta(seconds=_State.offset_s)


class _Module(ModuleType):
    """The module `datetime` in the view of our own code."""

    def __init__(self) -> None:
        super().__init__("datetime")
        self.__dict__.update({**vars(dt), "datetime": _Skewed})


_MODULE = _Module()


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of `__import__`
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Give the wrong clock only to our own code: compiled modules need the class itself."""
    package = str((globals or {}).get("__name__", "")).partition(".")[0]
    if name == "datetime" and level == 0 and package in _OURS:
        return _MODULE
    return _IMPORT(name, globals, locals, fromlist or (), level)


def main(arguments: list[str]) -> None:
    """Move the clock and run a module; its exit is this program's."""
    offset_s, when, module, *rest = arguments

    def move(*_: object) -> None:
        _State.offset_s = _State.passed_s = float(offset_s)

    def jump(*_: object) -> None:
        _State.offset_s = float(offset_s) - _State.offset_s

    if when == "now":
        move()
    else:
        signal.signal(signal.SIGUSR1, move if when == "signal" else jump)
    builtins.__import__ = _import
    time.time = lambda: _REAL_TIME() + _State.offset_s
    time.clock_gettime = lambda which: _REAL_CLOCK(which) + _State.passed_s
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
