"""A curator in its own process, with real certificates on loopback."""

import signal
from datetime import timedelta
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.study import Study
from dppca.common.transport.testbed import CURATOR, LocalCurator, Processes
from dppca.curator.cli import cli
from tests.support import skewed
from tests.support.certificates import Authority, new_authority, write_credentials
from tests.support.commands import answer_of
from tests.support.party import Party
from tests.support.patience import wait_until
from tests.support.studies import make_study

_FAR, _AHEAD = timedelta(hours=12), timedelta(days=1)


def far_moment() -> str:
    """A deadline that no machine is slow enough to pass, unless a curator's clock is ahead."""
    return (utc_now() + _FAR).isoformat(timespec="seconds")


class Curator(LocalCurator):
    def __init__(self, folder: Path, *, authority: Authority | None = None) -> None:
        self.authority = authority or new_authority()
        issued = self.authority.issue(Role.CURATOR, "hub")
        super().__init__(Processes(), folder, write_credentials(folder / "hub", issued))
        self._parties: list[Party] = []
        self._operator: tuple[str, Party] | None = None

    def start_with_clock(self, *, jumps: bool = False) -> Self:
        """Start with a clock that is a day ahead from `move_clock` on.

        Where it ``jumps``, no time seems to have passed, and the next `move_clock` sets it back.
        """
        moved = (str(_AHEAD.total_seconds()), "jump" if jumps else "signal")
        return self.start("-P", skewed.__file__, *moved, CURATOR, "serve")

    def move_clock(self) -> None:
        """Move the daemon's clock ahead by a day, beyond `far_moment`."""
        self.process.send_signal(signal.SIGUSR1)

    def until_nothing_arrives(self) -> None:
        """Wait until no upload and no result is in ``incoming``."""
        wait_until(lambda: not any((self.state / "incoming").iterdir()))

    def stop(self) -> None:
        for party in self._parties:
            party.close()
        if self._process is not None:
            self.kill()

    def begin(self, *owners: str, **changes: Any) -> Study:
        """Create a study with a new name, of a census by default."""
        name = f"study-{uuid4().hex[:8]}"
        study = make_study(**{"name": name, "owners": list(owners), **changes})
        self.operator().create(study)
        return study

    def party(self, name: str, role: Role = Role.OWNER) -> Party:
        return self.connect(self.authority.issue(role, name))

    def operator(self) -> Party:
        """Return the one connection to a running daemon, because a party may have few."""
        address, party = self._operator or ("", None)
        if party is None or address != self.address:
            party = self.party("alice", Role.OPERATOR)
            self._operator = self.address, party
        return party

    @property
    def connection(self) -> tuple[object, ...]:
        """Options with which an operator's command finds the daemon."""
        folder = self.folder / "alice"
        if not folder.exists():
            write_credentials(folder, self.authority.issue(Role.OPERATOR, "alice"))
        return ("--curator", self.address, "--credentials", folder)

    def operate(self, *arguments: object) -> tuple[int, Any]:
        """Exit code and document of an operator's command; see `answer_of`."""
        return answer_of("dppca-curator", cli, *arguments, *self.connection)

    def peak_kib(self) -> int:
        """Most memory that the daemon has had so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    def connect(self, credentials: Credentials) -> Party:
        party = Party(self.address, credentials)
        self._parties.append(party)
        return party
