"""What a runtime offers to anybody who does faults: parties that can be broken, and looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.fault_injection.fixture import Fixture

ENDED = "the study of faults is being stopped"

KILLED = (-9, 137)
"""Exit codes of a process that was killed, as processes and as containers tell it."""


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """A clock that is wrong by so many seconds, from the start or from `Runtime.resume` on."""

    offset_s: int
    from_start: bool


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """How a command ended: its exit code, and the JSON document or what else it said."""

    code: int
    document: Mapping[str, Any]
    said: str

    @property
    def message(self) -> str:
        """What was wrong, in its own words."""
        if self.code in KILLED:
            return "killed"
        error = self.document.get("error")
        if isinstance(error, dict):
            return str(error["message"])
        return self.said.strip()[-500:] or f"it ended with {self.code} and said nothing"


class Runtime(Protocol):
    """Curator, operator and owners of one cell. Methods may be called from several threads.

    ``hold`` is a step at which the party stops (`dppca.common.checkpoints`) until it is resumed.
    """

    def start_curator(
        self, scene: Fixture, *, hold: str | None = None, skew: ClockSkew | None = None
    ) -> CompletedCommand | None:
        """Start the curator, the first time or again; None once it serves."""

    def stop_curator(self) -> CompletedCommand:
        """Ask the curator to end, and wait for it."""

    def operate(self, *arguments: str) -> CompletedCommand:
        """``dppca-curator study …`` as the operator, to its end."""

    def run(
        self, owner: str, *arguments: str, hold: str | None = None, skew: ClockSkew | None = None
    ) -> CompletedCommand:
        """``dppca-owner …`` at a site, to its end."""

    def is_held(self, party: str) -> bool:
        """Whether a party stands at the step it was to be held at."""

    def resume(self, party: str, *, skew: bool = False) -> None:
        """Let a held party go on, with its clock wrong from here on where asked for."""

    def kill(self, party: str) -> None:
        """As ``kill -9``; returns when the party is gone."""

    def cut(self, party: str) -> None:
        """Cut a party off the others."""

    def heal(self, party: str) -> None:
        """Undo `cut`."""

    def slow(self, party: str) -> None:
        """Make a party's link slow."""

    def hurry(self, party: str) -> None:
        """Undo `slow`."""

    def fill(self, party: str) -> None:
        """Let a party write nothing more."""

    def free(self, party: str) -> None:
        """Undo `fill`."""

    def lose_key(self, owner: str) -> None:
        """Remove an owner's opener keys."""

    def copy_site(self, owner: str, to: Path) -> None:
        """Copy an owner's ledger with its journal, opener keys and components into a new folder."""

    def copy_state(self, to: Path) -> None:
        """Copy the curator's store into a new folder; the curator must be held or stopped."""

    def pool(self, payloads: Mapping[str, bytes]) -> bytes:
        """What owners' stored bytes pool to (`pooling`), where the curator ran.

        The curator must have stopped. Empty where it cannot be computed.
        """

    def log(self) -> str:
        """What the curator has said so far."""

    def end(self) -> None:
        """Kill every party; whatever is asked for from now on fails with `PeerError`."""
