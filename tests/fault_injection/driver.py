"""What a data steward does with the messages of `dppca-owner`: run a command again, or stop.

A steward contributes, opens where the site is an opener, and then asks for the result. A command
that failed is run again, as the messages say, unless the answer is final. Nothing else is done at a
site.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dppca.common.errors import (
    BudgetExceededError,
    ChainError,
    ConflictError,
    IdentityError,
    LedgerCorruptError,
    NotReadyError,
    OpeningRefusedError,
    StudyStateError,
)
from tests.fault_injection.fixture import STUDY_NAME
from tests.fault_injection.runtime import ClockSkew, CompletedCommand, Runtime
from tests.fault_injection.spec import Fault, FaultKind

FINAL = {
    kind.exit_code
    for kind in (
        BudgetExceededError,
        ChainError,
        ConflictError,
        IdentityError,
        LedgerCorruptError,
        NotReadyError,
        OpeningRefusedError,
        StudyStateError,
    )
}
"""Exit codes after which the same command will not succeed soon."""

_PAUSE_S = 0.5
_RESULT_STEPS = ("wait", "download")


@dataclass
class OwnerDriver:
    """One owner's steward.

    Attributes
    ----------
    fault
        What is done to this owner; None where it is done to somebody else.
    until
        When patience ends, by ``time.monotonic``.
    digest
        Digest of a study with ``trust: aggregate``, as another steward says it; else empty.
    opens
        Whether the site is an opener of the study.
    tell
        Told of every command that fails.
    commands
        How many were needed.
    """

    owner: str
    stage: Runtime
    fault: Fault | None
    until: float
    tell: Callable[[str, CompletedCommand], None]
    digest: str = ""
    opens: bool = False
    commands: int = 0
    _struck: bool = field(default=False, init=False)

    def contribute(self) -> None:
        """Contribute, and no more."""
        compared = ("--digest", self.digest) if self.digest else ()
        self._insist("contribute", STUDY_NAME, "--yes", *compared)

    def ask(self, *, wait_s: float) -> None:
        """Open, where the site is an opener, and wait so long for the result."""
        patience = ("--wait", str(max(1, round(wait_s))))
        if self.opens:
            self._insist("open", STUDY_NAME, *patience)
        self._insist("components", STUDY_NAME, *patience)

    def _insist(self, *command: str) -> None:
        while True:
            hold = self._hold(command[0])
            ended = self.stage.run(self.owner, *command, hold=hold, skew=self._skew(hold))
            self.commands += 1
            if ended.code == 0:
                return
            self.tell(self.owner, ended)
            if ended.code in FINAL or time.monotonic() > self.until:
                return
            time.sleep(_PAUSE_S)

    def _hold(self, command: str) -> str | None:
        """The step to be held at: once, in the command that has it."""
        if self.fault is None or self._struck or self.fault.step is None:
            return None
        asks = "components" if self.fault.step in _RESULT_STEPS else "contribute"
        if command != ("open" if self.fault.is_of_opener else asks):
            return None
        self._struck = True
        return self.fault.step

    def _skew(self, hold: str | None) -> ClockSkew | None:
        """The clock of the next command: wrong from its start once it has gone wrong."""
        if self.fault is None or self.fault.kind is not FaultKind.CLOCK:
            return None
        if hold is not None:
            return ClockSkew(self.fault.offset_s, from_start=False)
        if self.fault.step is None or self._struck:
            return ClockSkew(self.fault.offset_s, from_start=True)
        return None
