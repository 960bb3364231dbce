"""What every party is doing, live: its state, its seconds at work, its bytes on the network.

On a terminal a table that is drawn anew; elsewhere a line for every change of a party's state. Both
go to standard error, so that standard output holds the result alone.

Bytes are those the engine counts on a party's networks, in both directions, TLS and all; the
report's bytes are of the payloads. An engine counts once a second, so nobody waits for it: a thread
asks for the parties that work, and a line is written once the bytes of its moment are known.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from common.errors import EngineError
from deploy.containers.wanted import Traffic

POLL_S = 0.5
_AT_ONCE = 8


@dataclass
class Row:
    """One party: what it does, how long it has worked, what went over its networks.

    ``untold`` holds changes whose bytes are not known yet: when, which state (None: not worth a
    line), seconds at work.
    """

    state: str = "waiting"
    n_bytes: int = 0
    worked_s: float = 0.0
    working_since: float | None = None
    untold: list[tuple[float, str | None, float]] = field(default_factory=list)

    def seconds(self, now: float) -> float:
        """Seconds at work, the current piece included."""
        current = 0.0 if self.working_since is None else now - self.working_since
        return self.worked_s + current


class Board:
    """The states of all parties, shown as they change; every method is safe in threads.

    Parameters
    ----------
    parties
        In the order of their rows.
    traffic
        Asks for a party's bytes; may take a second.
    shown
        False keeps it silent, and asks nothing.
    stream
        Where to; standard error where None.
    clock
        Seconds that only grow.
    """

    def __init__(
        self,
        parties: Sequence[str],
        *,
        traffic: Callable[[str], Traffic],
        shown: bool,
        stream: IO[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rows = {party: Row() for party in parties}
        self._traffic = traffic
        self._shown = shown
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._live: Any = None
        self._poller: threading.Thread | None = None

    @contextmanager
    def at_work(self, party: str, state: str, *, then: str | None = None) -> Iterator[None]:
        """A party works within the block; afterwards it has failed, or is ``then``.

        Where that is None it waits, which a table shows and no line tells.
        """
        self._change(party, state, working=True)
        try:
            yield
        except BaseException:
            self._change(party, f"failed: {state}", working=False)
            raise
        self._change(party, then, working=False)

    def say(self, text: str) -> None:
        """One line that is of no party."""
        if not self._shown:
            return
        with self._lock:
            if self._live is None:
                self._line(self._elapsed(), text)
            else:
                self._live.console.print(text, markup=False)

    def watch(self) -> None:
        """Begin to draw, and to ask for bytes."""
        if not self._shown:
            return
        if self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self.table,
                console=Console(file=self._stream),
                refresh_per_second=4,
            )
            self._live.start()
        self._poller = threading.Thread(target=self._poll, name="board", daemon=True)
        self._poller.start()

    def close(self) -> None:
        """Tell what is still to be told; nothing is asked for any more."""
        self._stop.set()
        if self._poller is not None:
            self._poller.join()
            self._poller = None
        if self._live is not None:
            self._live.stop()
            self._live = None

    def table(self) -> Any:
        """The board as a table of rich."""
        from rich.table import Table

        now = self._clock()
        table = Table("party", "state", box=None, pad_edge=False)
        for heading in ("seconds", "bytes"):
            table.add_column(heading, justify="right")
        with self._lock:
            for party, row in self.rows.items():
                cells = (party, row.state, f"{row.seconds(now):.1f}", f"{row.n_bytes:,}")
                table.add_row(*cells, style=None if row.working_since is None else "bold")
        return table

    def _change(self, party: str, state: str | None, *, working: bool) -> None:
        with self._lock:
            row, now = self.rows[party], self._clock()
            row.worked_s, row.working_since = row.seconds(now), now if working else None
            row.state = state or "waiting"
            row.untold.append((self._elapsed(), state, row.worked_s))

    def _poll(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="board") as pool:
            while True:
                stopped = self._stop.wait(POLL_S)
                with self._lock:
                    moved = [
                        party
                        for party, row in self.rows.items()
                        if row.untold or (row.working_since is not None and not stopped)
                    ]
                list(pool.map(self._refresh, moved))
                if stopped:
                    return

    def _refresh(self, party: str) -> None:
        """Ask for a party's bytes, and tell what changed before."""
        row = self.rows[party]
        with self._lock:
            known, row.untold = row.untold, []
        try:
            found = self._traffic(party)
            n_bytes = found.received + found.sent
        except EngineError:
            n_bytes = 0  # it has gone, or the engine has: the next command says so
        with self._lock:
            # A container that was started again counts from zero.
            row.n_bytes = max(row.n_bytes, n_bytes)
            if self._live is None:
                for elapsed, state, seconds in (told for told in known if told[1] is not None):
                    text = f"{party:<10} {state:<20} {seconds:7.1f} s {row.n_bytes:>13,} bytes"
                    self._line(elapsed, text)

    def _elapsed(self) -> float:
        return self._clock() - self._began

    def _line(self, elapsed: float, text: str) -> None:
        self._stream.write(f"{elapsed:7.1f} s  {text}\n")
        self._stream.flush()
