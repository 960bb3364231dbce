"""The outcomes of many cells as a document, as a table, and as a page of the reference."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fault_injection.case import CaseOutcome
from tests.fault_injection.catalogue import MEANING, End
from tests.fault_injection.documents import FaultCell, FaultsDocument
from tests.fault_injection.spec import CURATOR, FaultKind, list_steps, role

_PAGE = """# Faults, one at a time

`dppca-simulate faults` runs a study of three owners for every fault, does the fault, lets everybody
do what the messages say, and then checks what is left: every ledger verifies and shows each charge
once; released bytes are those from before the fault; the curator has those very bytes; its result
is, bit for bit, what the bytes *stored by the owners that took part* pool to; a sealed set stays
the same, and its openers opened it once and kept no opener key; and the study ended as it should.
It leaves with 90 where a promise was broken. The command works in a checkout of the
source code only: its harness is `tests/fault_injection`, which is not installed with `dppca`. This
page is what it wrote (`make faults` writes it again):

```sh
{command}
```

## Try one

A fault is `PARTY:KIND@STEP:DURATION`. The party is `curator` or an owner. Without a duration, what
can be healed lasts until the study has ended or its deadline has passed.

```sh
dppca-simulate faults --fault owner-2:kill@draw        # kill -9, and the command again
dppca-simulate faults --fault owner-1:partition@send:20s  # cut for 20 s, then healed
dppca-simulate faults --fault owner-3:slow@send        # 2000 bytes a second from there on
dppca-simulate faults --fault curator:disk-full        # from the first contribution on
dppca-simulate faults --fault owner-1:clock+2d         # its clock is two days fast
dppca-simulate faults --fault opener-1:kill@open       # in a study with trust: aggregate
dppca-simulate faults --fault owner-2:late --fault owner-2:never --fault owners:never
```

{runtimes}

The study has a quorum of two and a deadline. Faults of `opener-1` and `opener-2`, and of the
curator while it seals and takes openings, are done in a study with `trust: aggregate`: a quorum of
three, one colluder, and owner-1 and owner-2 as its openers. A party is stopped exactly at its step
(`DPPCA_FAULT=hold@STEP`, decision 73), the fault is done from outside, and it goes on.

{meanings}

## What came of it

Charges and commands are those of owner-1, owner-2 and owner-3; a kill, for instance, costs its
owner one command more. The word in a cell says how the study ended, as it should; a broken promise
would say so. Seconds are of a busy machine with two cores, two studies at a time.

{table}
"""

_RUNTIMES = """**What is real.** With `--runtime containers` every party is a container of the
image with a network of its own to the curator. A kill ends the whole container; a cut is the engine
pulling it off its network; a full disk is a file system of 4 MiB with no room left (`ENOSPC`). With
`--runtime processes` the parties are processes of this machine, a cut is a relay that passes
nothing and closes nothing, a full disk is a limit on the size of files. A slow link is the same
relay in both. A clock cannot be wrong for one container alone: what is moved is every time that
Python tells (decision 74), so certificates and deadlines are judged by the wrong clock, and the
dates inside the TLS handshake by the right one. Cells of every kind on containers are on
[a page of their own](faults-containers.md)."""

_ENDS = {
    End.ALL: "with a result of all three owners",
    End.QUORUM: "at its deadline, with a result of the other two",
    End.ABORTED: "aborted, with a reason",
    End.STUCK: "not by its deadline: everybody is told why, and it ends once there is room again",
    End.NOT_BEGUN: "it cannot be created, and the operator is told why",
}


def make_document(outcomes: Sequence[CaseOutcome], *, runtime: str) -> FaultsDocument:
    """The outcomes as one JSON document."""
    return {
        "command": "faults",
        "runtime": runtime,
        "cells": [_cell_document(outcome) for outcome in outcomes],
        "failed": [str(outcome.fault) for outcome in outcomes if outcome.problems],
    }


def make_markdown(document: FaultsDocument) -> str:
    """The table of steps and faults, and one line for every cell."""
    cells = document["cells"]
    failed = [cell for cell in cells if cell["problems"]]
    kept = len(cells) - len(failed)
    lines = [f"{kept} of {len(cells)} cells keep every promise ({document['runtime']}).", ""]
    for cell in failed:
        lines += [f"- **{cell['fault']}**: {'; '.join(cell['problems'])}"]
    lines += [""] if failed else []
    lines += _grid(cells)
    lines += [
        "| fault | the study ends | charges | commands | seconds | what was said meanwhile |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_line(cell) for cell in cells),
    ]
    return "\n".join(lines)


def make_page(document: FaultsDocument, *, everything: bool, output: str) -> str:
    """A page of the reference with the outcomes, for the file of this name."""
    asked = ["--all"] if everything else [f"--fault {cell['fault']}" for cell in document["cells"]]
    runtime = f"--runtime {document['runtime']}"
    command = ["dppca-simulate faults", *asked, runtime, f"--output {output}"]
    return _PAGE.format(
        command=" ".join(command),
        runtimes=_RUNTIMES,
        meanings="\n".join(_meanings()),
        table=make_markdown(document),
    )


def _grid(cells: Sequence[FaultCell]) -> list[str]:
    """Step by fault, for the cells that have a step; nothing where there are none."""
    kinds = [kind for kind in FaultKind if any(c["step"] and c["kind"] == kind for c in cells)]
    if not kinds:
        return []
    lines = [
        f"| step | {' | '.join(kinds)} |",
        f"| --- |{' --- |' * len(kinds)}",
    ]
    for party in ("owner", "opener", CURATOR):
        for step in list_steps(party):
            row = [_grid_cell(cells, party, step, kind) for kind in kinds]
            if any(row):
                lines.append(f"| {party}: {step} | {' | '.join(row)} |")
    return [*lines, ""]


def _grid_cell(cells: Sequence[FaultCell], party: str, step: str, kind: FaultKind) -> str:
    found = [
        _verdict(cell)
        for cell in cells
        if role(cell["party"]) == party and (cell["step"], cell["kind"]) == (step, kind)
    ]
    return ", ".join(dict.fromkeys(found))


def _verdict(cell: FaultCell) -> str:
    return f"**{cell['end'] or 'no end'}: broken**" if cell["problems"] else str(cell["end"])


def _line(cell: FaultCell) -> str:
    said = "<br>".join(text.replace("|", "/").replace("\n", " ") for text in cell["said"])
    numbers = (" ".join(map(str, each.values())) for each in (cell["charges"], cell["commands"]))
    return (
        f"| `{cell['fault']}` | {_verdict(cell)} | {' | '.join(numbers)} | "
        f"{cell['seconds']:.0f} | {said} |"
    )


def _cell_document(outcome: CaseOutcome) -> FaultCell:
    fault = outcome.fault
    return {
        "fault": str(fault),
        "party": fault.party,
        "kind": fault.kind,
        "step": fault.step,
        "expected": outcome.expected.end,
        "end": outcome.end,
        "charges": dict(outcome.charges),
        "commands": dict(outcome.commands),
        "said": list(outcome.said),
        "problems": list(outcome.problems),
        "seconds": round(outcome.seconds, 1),
    }


def _meanings() -> list[str]:
    """Every step and end in words, as tables."""
    return [
        "| step | where the party stands |",
        "| --- | --- |",
        *(
            f"| {party}: {step} | {meaning} |"
            for party, steps in MEANING.items()
            for step, meaning in steps.items()
        ),
        "",
        "| word | how the study ends |",
        "| --- | --- |",
        *(f"| {end.value} | {words} |" for end, words in _ENDS.items()),
    ]
