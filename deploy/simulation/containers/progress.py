"""What every party is doing: its step, its seconds at work, its bytes on the network.

On a terminal a table that is drawn again; elsewhere a line for every step. Both go to standard
error, so that standard output holds the result alone. Bytes are those the engine counts on a
party's networks, in both directions, TLS and all; the report's bytes are of the payloads.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any

from dppca.common.names import shown


@dataclass
class ProgressRow:
    """One party: its step, when it began to work, how long it has worked, its bytes."""

    step: str = "waiting"
    began: float | None = None
    seconds: float = 0.0
    n_bytes: int = 0


class ProgressTable:
    """The steps of all parties, shown as they change; every method is safe in threads.

    Parameters
    ----------
    parties
        In the order of their rows.
    shown
        False keeps it silent.
    stream
        Where to; standard error where None.
    clock
        Seconds that only grow.
    """

    def __init__(
        self,
        parties: Sequence[str],
        *,
        shown: bool,
        stream: IO[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rows = {party: ProgressRow() for party in parties}
        self.shown = shown
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._live: Any = None

    def open(self) -> None:
        """Begin to draw the table, on a terminal."""
        if not self.shown or not self._stream.isatty():
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._stream)
        self._live = Live(get_renderable=self.table, console=console, refresh_per_second=4)
        self._live.start()

    def close(self) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """Show a line that belongs to no party."""
        if self._live is not None:
            self._live.console.print(shown(text), markup=False)
        elif self.shown:
            self._line(text)

    def count(self, party: str, n_bytes: int) -> None:
        """Keep a party's bytes; they never shrink, though a new container counts from zero."""
        with self._lock:
            self.rows[party].n_bytes = max(self.rows[party].n_bytes, n_bytes)

    def begin(self, party: str, step: str) -> None:
        """A party begins a step, its last one or a wait among them."""
        with self._lock:
            row, now = self.rows[party], self._clock()
            row.began = now if row.began is None else row.began
            row.step, row.seconds = step, now - row.began
            text = f"{party:<12} {step:<16} {row.seconds:7.1f} s {row.n_bytes:>13,} bytes"
        if self.shown and self._live is None:
            self._line(text)

    def table(self) -> Any:
        """The steps as a table of rich."""
        from rich.table import Table

        table = Table("party", "step", box=None, pad_edge=False)
        for heading in ("seconds", "bytes"):
            table.add_column(heading, justify="right")
        with self._lock:
            for party, row in self.rows.items():
                table.add_row(party, row.step, f"{row.seconds:.1f}", f"{row.n_bytes:,}")
        return table

    def _line(self, text: str) -> None:
        self._stream.write(f"{self._clock() - self._began:7.1f} s  {shown(text)}\n")
        self._stream.flush()
