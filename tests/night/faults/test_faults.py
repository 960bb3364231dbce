"""Every fault at every step of a study: what is promised holds, and the study ends as it should.

A study has three owners, who may have a fault each at the same time. How a study ends follows from
what the faults keep a party from:

* a kill, a slow link, and whatever is healed, cost time and nothing else: all owners take part;
* an owner that cannot get its release to the curator before the deadline is left out, and the
  others have their result; so is one that is late, missing, or refuses by its own wrong clock;
* with too few, the study is aborted, and says why; so is one that an opener does not open in time;
* a curator whose disk is full cannot end a study. It refuses, says why, and ends the study once it
  can write again;
* a curator whose clock is wrong from the beginning does not begin.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import pytest

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.checkpoints import CuratorStep, OwnerStep
from dppca.common.kernel.errors import IdentityError, StudyError
from tests.fault_injection.invariants import (
    broken_curator,
    broken_result,
    broken_sites,
    files_with_rows,
    read_curator,
    read_site,
)
from tests.fault_injection.parties import (
    CURATOR,
    DAY_S,
    KILLED,
    OPENERS,
    OWNERS,
    ClockSkew,
    Parties,
    parties,
)
from tests.fault_injection.study import End, Fault, FaultyStudy, Kind

OWNER_STEPS: tuple[str, ...] = get_args(OwnerStep)
OPENER_STEPS = ("check", "open", "destroy", "send")
MASKED_STEPS = ("seal", "sealed", "opening", "opened")
CURATOR_STEPS: tuple[str, ...] = tuple(
    step for step in get_args(CuratorStep) if step not in (*MASKED_STEPS, "vote")
)
"""Without votes: no study here has spare openers, and `tests/merge/kills` has them."""
BEYOND_CERTIFICATE_S = 100 * DAY_S
HEALED_S = 3.0
DEFECTS = {1, 2, 70}
"""Exit codes of errors that nobody meant."""
PARTIES = (CURATOR, *OWNERS)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Cell:
    """One study with its faults and its end."""

    end: End
    faults: tuple[Fault, ...]
    masked: bool = False
    quorum: int = 2

    def __str__(self) -> str:
        return " ".join(map(str, self.faults))


def harmless_to_owners() -> Iterator[Cell]:
    """Faults of owners after which all take part, three in a study."""
    seats: list[tuple[Kind, str, float | None]] = [
        (Kind.CUT, "send", 20.0),
        *(
            (kind, step, HEALED_S if kind in (Kind.CUT, Kind.DISK_FULL) else None)
            for step in OWNER_STEPS
            for kind in (Kind.KILL, Kind.CUT, Kind.SLOW, Kind.DISK_FULL, Kind.CLOCK)
            if kind is not Kind.CLOCK or step not in ("fetch", "read")
        ),
    ]
    for seated in in_groups(seats, len(OWNERS)):
        faults = (
            Fault(owner, kind, (step,), lasts_s)
            for owner, (kind, step, lasts_s) in zip(OWNERS, seated, strict=False)
        )
        yield Cell(End.ALL, tuple(faults))


def leaving_owners_out() -> Iterator[Cell]:
    """Faults of owners that are left out, two in a study whose third owner is enough."""
    faults = [
        Fault("owner-1", Kind.CLOCK, ("fetch",), charges=0),
        Fault("owner-2", Kind.CLOCK, ("read",), charges=0),
        Fault("owner-1", Kind.CUT, ("send",)),
        Fault("owner-2", Kind.DISK_FULL, ("draw",)),
        Fault("owner-1", Kind.NEVER, charges=0, has_result=False),
        Fault("owner-2", Kind.LATE, charges=0),
        Fault("owner-1", Kind.CLOCK, charges=0),
        Fault("owner-2", Kind.DISK_FULL, charges=0),
        Fault("owner-1", Kind.CLOCK, offset_s=-2 * DAY_S, charges=0, has_result=False),
        Fault("owner-2", Kind.CLOCK, offset_s=BEYOND_CERTIFICATE_S, charges=0, has_result=False),
    ]
    for pair in in_groups(faults, 2):
        yield Cell(End.QUORUM, tuple(pair), quorum=1)
    nobody = (Fault(owner, Kind.NEVER, charges=0, has_result=False) for owner in OWNERS)
    yield Cell(End.ABORTED, tuple(nobody))


def of_curator() -> Iterator[Cell]:
    """Faults of a curator: one after the other in one study, but for a wrong clock, which stays."""
    yield Cell(End.ALL, (Fault(CURATOR, Kind.KILL, CURATOR_STEPS),))
    yield Cell(End.ALL, (Fault(CURATOR, Kind.CUT, CURATOR_STEPS, HEALED_S),))
    yield Cell(End.ALL, (Fault(CURATOR, Kind.SLOW, CURATOR_STEPS),))
    yield Cell(End.ALL, (Fault(CURATOR, Kind.DISK_FULL, CURATOR_STEPS, HEALED_S),))
    aborting = CURATOR_STEPS[: CURATOR_STEPS.index("decompose")]
    for step in CURATOR_STEPS:
        end = End.CLOCK_ABORTED if step in aborting else End.ALL
        yield Cell(end, (Fault(CURATOR, Kind.CLOCK, (step,), charges=None),))
    yield Cell(End.STUCK, (Fault(CURATOR, Kind.DISK_FULL, charges=None),))
    yield Cell(End.STUCK, (Fault(CURATOR, Kind.DISK_FULL, ("decompose",)),))


def of_masked_sums() -> Iterator[Cell]:
    """Faults in studies with ``trust: aggregate``, of the curator and of openers."""
    all_masked: dict[str, Any] = {"masked": True, "quorum": len(OWNERS)}
    yield Cell(End.ALL, (Fault(CURATOR, Kind.KILL, MASKED_STEPS),), **all_masked)
    seats = [
        (kind, step, None if kind is Kind.KILL else HEALED_S)
        for step in OPENER_STEPS
        for kind in (Kind.KILL, Kind.CUT, Kind.DISK_FULL)
    ]
    for seated in in_groups(seats, len(OPENERS)):
        faults = (
            Fault(f"opener-{place}", kind, (step,), lasts_s)
            for place, (kind, step, lasts_s) in enumerate(seated, 1)
        )
        yield Cell(End.ALL, tuple(faults), **all_masked)
    for opener, kind in (("opener-1", Kind.NEVER), ("opener-2", Kind.LATE)):
        yield Cell(End.ABORTED, (Fault(opener, kind, has_result=False),), **all_masked)
    lost = Fault("opener-1", Kind.KEY_LOST, has_result=False)
    yield Cell(End.ABORTED, (lost,), **all_masked)


def in_groups(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return (items[at : at + size] for at in range(0, len(items), size))


CELLS = [*harmless_to_owners(), *leaving_owners_out(), *of_curator(), *of_masked_sums()]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_study_with_faults_keeps_every_promise(cell: Cell, tmp_path: Path) -> None:
    with parties(tmp_path) as made:
        run = FaultyStudy(made, cell.faults, cell.end, cell.masked, cell.quorum)
        study = run.run()
        copies = {party: made.copy(party, tmp_path / f"{party}-after") for party in PARTIES}
        sites = {owner: read_site(copies[owner], study) for owner in OWNERS}
        curator = read_curator(copies[CURATOR], study)
        broken = [
            *broken_sites(run.sites_before, sites, curator),
            *broken_curator(run.curator_before, sites, curator),
            *broken_result(study, sites, curator),
            *broken_words(made),
        ]
    assert broken == []
    faults = {fault.host: fault for fault in cell.faults}

    record = curator.record
    assert record is not None
    if cell.end in (End.ALL, End.QUORUM):
        left_out = set(faults) if cell.end is End.QUORUM else set()
        assert (record.state, {*record.contributed}) == (StudyState.CLOSED, {*OWNERS} - left_out)
    elif cell.end is End.STUCK:
        assert run.is_open_after_deadline
        assert record.state in (StudyState.ABORTED, StudyState.CLOSED)
    else:
        assert record.state is StudyState.ABORTED
    assert bool(record.reason) == (record.state is StudyState.ABORTED)
    somebody_asked = any(fault.kind is not Kind.NEVER for fault in cell.faults)
    if cell.end is not End.ALL and somebody_asked:
        assert [ended.message for _, ended in made.ended if ended.code > 0]

    for owner, site in sites.items():
        fault = faults.get(owner)
        if fault is not None and fault.charges is not None:
            assert site.charges == fault.charges, owner
        elif cell.end in (End.ALL, End.QUORUM) or cell.masked:
            assert site.charges == 1, owner
        if curator.result:
            assert bool(site.result) == (fault is None or fault.has_result), owner
        never_opened = fault is not None and cell.masked and fault.kind is Kind.NEVER
        assert bool(site.keys) == never_opened, owner
        before = run.sites_before.get(owner)
        if before is not None and before.keys and fault is not None:
            assert before.sums is None or fault.steps == ("open",), f"{owner} has kept its key"


@pytest.mark.parametrize("offset_s", [2 * DAY_S, -2 * DAY_S, BEYOND_CERTIFICATE_S])
def test_a_curator_with_a_wrong_clock_begins_no_study(offset_s: int, tmp_path: Path) -> None:
    with parties(tmp_path) as made:
        skew = ClockSkew(offset_s, from_start=True)
        if offset_s != 2 * DAY_S:
            with pytest.raises(IdentityError, match=r"check this machine's clock|expired on"):
                made.start_curator(skew=skew)
            return
        made.start_curator(skew=skew)
        made.make_study(masked=False, quorum=2)
        created = made.operate("create", str(tmp_path / "study.json"), "--yes")
        assert created.code == StudyError.exit_code
        assert "deadline must be in the future by the curator's clock" in created.message
        assert broken_words(made) == []


def broken_words(made: Parties) -> list[str]:
    """Say where a command or the curator ended as none should, or where a row is told."""
    log = made.curator.log.read_bytes()
    broken = ["the curator's log holds a traceback"] if b"Traceback" in log else []
    said: dict[str, bytes] = {"the curator's log": log}
    for number, (party, ended) in enumerate(made.ended):
        if ended.code in DEFECTS or "Traceback" in ended.said or KILLED != ended.code < 0:
            broken.append(f"{party}'s command ended with {ended.code}: {ended.message}")
        said[f"command {number}, of {party}"] = f"{ended.document}{ended.said}".encode()
    files = [path for path in made.folder.rglob("*") if path.name != "rows.csv"]
    for site in made.sites.values():
        broken += [f"a row is in {name}" for name in files_with_rows(site.folder, files, said)]
    return broken
