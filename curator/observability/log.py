"""The curator's log: one line per event, as JSON unless standard error is a terminal.

Lines hold names, sizes, states and reasons. No noised value and no synthetic row is ever logged:
they are released, but logs are often copied to unexpected places.
"""

import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from datetime import UTC, datetime
from typing import Literal

from dppca.common.kernel.documents.names import escaped_json, one_line, shown

LOGGER = logging.getLogger("dppca.curator")

Format = Literal["json", "text"]


def log_event(
    event: str, *, level: int = logging.INFO, limit: Hashable = None, **fields: object
) -> None:
    """Log one event with its fields.

    ``limit`` is the key of an event that a caller can cause at will: the caller, if known, and the
    event's kind. At most 60 lines of one key are written in a minute, and the next line reports how
    many were dropped. None writes every line.
    """
    unlogged = 0 if limit is None else _LIMITER.take(limit)
    if unlogged is not None:
        more = {"unlogged": unlogged} if unlogged else {}
        LOGGER.log(level, event, extra={"fields": fields | more})


class LineLimiter:
    """Writes at most ``most`` lines of one kind in a minute and counts the rest."""

    def __init__(self, most: int, *, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._minute = -1
        self._counts: Counter[Hashable] = Counter()
        self._unlogged: Counter[Hashable] = Counter()

    def take(self, kind: Hashable) -> int | None:
        """Return None if the line is to be dropped, else the number dropped since the last one."""
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
        self._counts[kind] += 1
        if self._counts[kind] > self._most:
            self._unlogged[kind] += 1
            return None
        return self._unlogged.pop(kind, 0)


_LIMITER = LineLimiter(60, clock=time.monotonic)


def configure(form: Format | None) -> None:
    """Send the log to standard error; by default text on a terminal and JSON elsewhere.

    What gRPC's core writes there is for `dppca.curator.observability.handshakes`.
    """
    if form is None:
        form = "text" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    return getattr(record, "fields", {})


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(line, ensure_ascii=False, default=str))


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        rest = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        line = one_line(
            f"{time} {record.levelname.lower():7} {record.getMessage()}  {rest}".rstrip()
        )
        if not record.exc_info:
            return line
        return f"{line}\n{shown(self.formatException(record.exc_info))}"
