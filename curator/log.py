"""The curator's log: one line per event, JSON where nobody watches.

Lines hold names, sizes, states and reasons. No noised value and no synthetic row is ever logged:
they are released, but a log is copied to places nobody thinks of.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

LOGGER = logging.getLogger("dppca.curator")

Format = Literal["json", "text"]


def note(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log one event with its fields."""
    LOGGER.log(level, event, extra={"fields": fields})


def configure(form: Format | None) -> None:
    """Send the log to standard error; JSON unless that is a terminal, where not said.

    Call it before gRPC is imported: its own lines about failed handshakes, which are not JSON and
    name nobody, are left out of a JSON log unless ``GRPC_VERBOSITY`` asks for them.
    """
    if form is None:
        form = "text" if sys.stderr.isatty() else "json"
    if form == "json":
        os.environ.setdefault("GRPC_VERBOSITY", "error")
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
        return json.dumps(line, ensure_ascii=False, default=str)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        rest = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        line = f"{time} {record.levelname.lower():7} {record.getMessage()}  {rest}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
