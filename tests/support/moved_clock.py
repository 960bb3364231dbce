"""A wall clock that a test moves while daemons and commands run, TLS included, by libfaketime.

Seconds that pass stay real: a thread that waits would hang by a counting clock that is faked, too.
The price is that `time.sleep` of CPython sleeps until a moment of a clock that libfaketime thinks
faked, and fails with EINVAL; `tests/support/seeded_noise` waits in another way there.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.requirements import miss


class MovedClock:
    """``variables`` put a process under the clock, which `move` moves; see `now`."""

    def __init__(self, folder: Path) -> None:
        library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
        if library is None:
            miss("faketime", "apt-get install faketime")
        self._file, self._ahead = folder / "clock", timedelta()
        self.move(self._ahead)
        self.variables = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def move(self, ahead: timedelta) -> None:
        """Set the clock so far ahead of this machine's, from the next look on."""
        self._ahead = ahead
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{ahead.total_seconds():+.0f}s\n")
        draft.replace(self._file)

    @property
    def now(self) -> datetime:
        """The time of the processes, aware."""
        return datetime.now(UTC) + self._ahead
