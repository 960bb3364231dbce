"""What ``dppca-simulate faults`` prints as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from dppca.common.documents import Document
from tests.fault_injection.catalogue import End
from tests.fault_injection.spec import FaultKind


class FaultCell(TypedDict):
    """One study with one fault, and what came of it."""

    fault: Annotated[str, "the fault, as `--fault` takes it"]
    party: Annotated[str, "`curator`, or the name of an owner or opener"]
    kind: Annotated[FaultKind, "kind of the fault"]
    step: Annotated[str | None, "step of the protocol; null for a fault without one"]
    expected: Annotated[End, "how the study should end"]
    end: Annotated[End | None, "how it ended; null if it did not"]
    charges: Annotated[dict[str, int], "charges in each owner's ledger"]
    commands: Annotated[dict[str, int], "commands that each owner had to run"]
    said: Annotated[list[str], "messages of the parties meanwhile"]
    problems: Annotated[list[str], "promises that were broken"]
    seconds: Annotated[float, "time that the study took"]


class FaultsDocument(Document):
    """Studies with faults, one fault to each."""

    runtime: Annotated[str, "`processes` or `containers`"]
    cells: Annotated[list[FaultCell], "one entry for each fault"]
    failed: Annotated[list[str], "faults after which a promise was broken"]
