"""How faults are written, and what each should come to."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from common.errors import SettingError
from deploy.containers.cluster import DEFAULT_IMAGE
from deploy.faults.catalogue import MEANING, End, all_cells, expected
from deploy.faults.command import IMAGE, faults
from deploy.faults.spec import CURATOR, CURATOR_STEPS, OWNER_STEPS, Fault, Kind, parse_fault

WISHED = [
    "owner-2:kill@draw",
    "curator:kill@store",
    "owner-1:partition@send:20s",
    "owner-3:slow@send",
    "curator:disk-full",
    "owner-1:clock+2d",
    "owner-2:never",
]
REFUSED = {
    "owner-2": "no fault",
    "owner-2:kill@draw:5s:5s": "no fault",
    ":kill@draw": "no fault",
    "Owner 2:kill@draw": "names no party",
    "owner-2:die@draw": "none of kill",
    "owner-2:kill": "needs a step",
    "owner-2:kill@": "no step of it",
    "owner-2:kill@decompose": "no step of it",
    "curator:kill@draw": "no step of it",
    "owner-2:kill@draw:5s": "takes no duration",
    "owner-2:slow@send:5": "no length of time",
    "owner-2:slow@send:0s": "no length of time",
    "owner-2:clock": "needs an offset",
    "owner-2:clock+5m": "at least 1h",
    "owner-2:clock+2w": "no length of time",
    "owner-2:never@draw": "has no step",
    "curator:never": "without a curator",
    "curator:late": "without a curator",
    "owners:late": "only be missing",
    "curator:partition@store": "give a duration",
}


@pytest.mark.parametrize("text", WISHED)
def test_what_is_read_is_written_back(text: str) -> None:
    assert str(parse_fault(text)) == text


def test_a_fault_is_its_parts() -> None:
    assert parse_fault("owner-1:partition@send:20s") == Fault(
        "owner-1", Kind.PARTITION, "send", duration_s=20
    )
    assert parse_fault("curator:clock-2d@decompose") == Fault(
        CURATOR, Kind.CLOCK, "decompose", offset_s=-172_800
    )
    assert parse_fault("owner-1:slow@send:120s") == parse_fault("owner-1:slow@send:2m")


@pytest.mark.parametrize("text", sorted(REFUSED))
def test_what_is_no_fault_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(SettingError, match=REFUSED[text]):
        parse_fault(text)


def test_the_table_has_every_step_with_every_fault_that_has_a_step() -> None:
    cells = all_cells()
    assert len(set(cells)) == len(cells)
    assert all(parse_fault(str(fault)) == fault for fault in cells)
    for kind in (Kind.KILL, Kind.PARTITION, Kind.SLOW, Kind.DISK_FULL, Kind.CLOCK):
        of_owner = {f.step for f in cells if f.kind is kind and f.party.startswith("owner-")}
        of_curator = {f.step for f in cells if f.kind is kind and f.party == CURATOR}
        assert of_owner >= set(OWNER_STEPS)
        assert of_curator >= set(CURATOR_STEPS)
    assert {fault.kind for fault in cells} == set(Kind)
    assert {expected(fault).end for fault in cells} == set(End)


def test_every_step_is_explained() -> None:
    assert tuple(MEANING["owner"]) == OWNER_STEPS
    assert tuple(MEANING[CURATOR]) == CURATOR_STEPS


@pytest.mark.parametrize(
    ("text", "end", "charged"),
    [
        ("owner-1:kill@reserve", End.ALL, 1),
        ("owner-1:partition@send:20s", End.ALL, 1),
        ("owner-1:partition@fetch", End.QUORUM, 0),
        ("owner-1:partition@send", End.QUORUM, 1),
        ("owner-1:partition@acknowledge", End.ALL, 1),
        ("owner-1:slow@fetch", End.ALL, 1),
        ("owner-1:disk-full", End.QUORUM, 0),
        ("owner-1:disk-full@read", End.QUORUM, 0),
        ("owner-1:disk-full@store", End.QUORUM, 1),
        ("owner-1:disk-full@commit", End.ALL, 1),
        ("owner-1:disk-full@draw:5s", End.ALL, 1),
        ("owner-1:clock+2d", End.QUORUM, 0),
        ("owner-1:clock-2d", End.QUORUM, 0),
        ("owner-1:clock-2d@fetch", End.ALL, 1),
        ("owner-1:clock+2d@read", End.ALL, 1),
        ("owner-1:late", End.QUORUM, 0),
        ("owner-1:never", End.QUORUM, 0),
        ("owners:never", End.ABORTED, 0),
        ("curator:kill@serve", End.ALL, 1),
        ("curator:disk-full", End.STUCK, 1),
        ("curator:disk-full@store:5s", End.ALL, 1),
        ("curator:disk-full@serve", End.ALL, 1),
        ("curator:clock+2d", End.NOT_BEGUN, 0),
        ("curator:clock-2d", End.NOT_BEGUN, 0),
        ("curator:clock+2d@store", End.ABORTED, None),
        ("curator:clock+2d@decompose", End.ALL, 1),
    ],
)
def test_what_a_fault_should_come_to(text: str, end: End, charged: int | None) -> None:
    found = expected(parse_fault(text))
    assert (found.end, found.charged) == (end, charged)


@pytest.mark.parametrize("arguments", [[], ["--all", "--fault", "owner-2:never"]])
def test_the_command_wants_faults_or_all_of_them(arguments: list[str]) -> None:
    done = CliRunner().invoke(faults, arguments)
    assert isinstance(done.exception, SettingError)


def test_the_image_is_that_of_the_other_simulations() -> None:
    assert IMAGE == DEFAULT_IMAGE
