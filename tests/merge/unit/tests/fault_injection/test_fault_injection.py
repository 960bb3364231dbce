"""The fault harness: a fault that is not done, or a broken promise that is not shown, is found."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from dppca.common.errors import SettingError
from dppca.deploy.simulation.harness import find_faults_command
from tests.fault_injection.case import CaseOutcome
from tests.fault_injection.catalogue import End, all_cases, expected
from tests.fault_injection.page import make_document, make_markdown
from tests.fault_injection.processes import SCRIPTS
from tests.fault_injection.relay import Proxy
from tests.fault_injection.spec import (
    CURATOR,
    CURATOR_STEPS,
    MASKED_STEPS,
    OPENER_STEPS,
    OWNER_STEPS,
    FaultKind,
    parse_fault,
)
from tests.support.patience import WAIT_S

NOTHING_COMES_S = 0.3


def test_the_table_has_every_step_with_every_fault_that_has_a_step() -> None:
    cells = all_cases()
    assert len(set(cells)) == len(cells)
    assert all(parse_fault(str(fault)) == fault for fault in cells)
    for kind in (
        FaultKind.KILL,
        FaultKind.PARTITION,
        FaultKind.SLOW,
        FaultKind.DISK_FULL,
        FaultKind.CLOCK,
    ):
        of_owner = {f.step for f in cells if f.kind is kind and f.party.startswith("owner-")}
        of_curator = {f.step for f in cells if f.kind is kind and f.party == CURATOR}
        assert of_owner >= set(OWNER_STEPS)
        assert of_curator >= set(CURATOR_STEPS) - set(MASKED_STEPS)
    for kind in (FaultKind.KILL, FaultKind.PARTITION, FaultKind.DISK_FULL):
        assert {f.step for f in cells if f.kind is kind and f.is_of_opener} == set(OPENER_STEPS)
    assert {f.step for f in cells if f.is_masked and f.is_of_curator} == set(MASKED_STEPS)
    assert {fault.kind for fault in cells} == set(FaultKind)
    assert {expected(fault).end for fault in cells} == set(End)


@pytest.mark.parametrize(
    ("text", "reason"),
    {
        "owner-2:die@draw": "none of kill",
        "owner-2:kill": "needs a step",
        "curator:kill@draw": "no step of it",
        "owner-2:kill@draw:5s": "takes no duration",
        "owner-2:clock+5m": "at least 1h",
        "curator:partition@store": "give a duration",
        "curator:kill@vote": "no step of it",
        "owner-1:kill@open": "no step of it",
        "owner-1:key-lost": "only an opener",
        "opener-1:kill@draw": "no step of it",
        "opener-1:clock+2d": "not done to openers",
        "opener-1:partition@send": "needs a step and a duration",
        "opener-3:never": "the openers are",
    }.items(),
)
def test_a_fault_that_could_not_be_done_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        parse_fault(text)


def test_the_command_wants_faults_or_all_of_them_and_says_where_the_harness_is(
    tmp_path: Path,
) -> None:
    here, elsewhere = find_faults_command(), find_faults_command(tmp_path / "harness.py")
    for arguments in ([], ["--all", "--fault", "owner-2:never"]):
        assert isinstance(CliRunner().invoke(here, arguments).exception, SettingError)
    said = CliRunner().invoke(elsewhere, ["--fault", "owner-2:never", "--json"]).exception
    assert isinstance(said, SettingError)
    assert "make faults" in str(said)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(1000):
        writer.write(content)
        await writer.drain()
    writer.close()


async def _through_a_cut() -> list[bytes]:
    far = await asyncio.start_server(_echo, "127.0.0.1", 0)
    relay = Proxy(lambda: far.sockets[0].getsockname()[:2])
    heard = []
    try:
        reader, writer = await asyncio.open_connection(*await relay.listen("127.0.0.1", 0))
        for cut in (False, True):
            if cut:
                relay.cut()
            writer.write(b"word")
            if cut:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.read(1), NOTHING_COMES_S)
                relay.heal()
            heard.append(await asyncio.wait_for(reader.readexactly(4), WAIT_S))
        relay.slow()
        writer.write(b"slowly" * 100)
        heard.append(await asyncio.wait_for(reader.readexactly(600), WAIT_S))
        writer.write_eof()
        heard.append(await asyncio.wait_for(reader.read(), WAIT_S))
        writer.close()
    finally:
        await relay.close()
        far.close()
    return heard


def test_a_cut_link_passes_nothing_and_closes_nothing_and_healed_it_loses_nothing() -> None:
    assert asyncio.run(_through_a_cut()) == [b"word", b"word", b"slowly" * 100, b""]


SKEWED = next(path for path in SCRIPTS if path.name == "skewed.py")
CLOCK = """
import sys, time
from datetime import UTC, datetime
assert isinstance(datetime.fromtimestamp(0, UTC), datetime)
other = datetime.fromtimestamp(time.time(), UTC)
print(datetime.now(UTC).isoformat(), other.isoformat(), flush=True)
if sys.argv[1:] == ["wait"]:
    sys.stdin.readline()
    print(datetime.now(UTC).isoformat(), flush=True)
"""


def _clock(tmp_path_name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SKEWED), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": tmp_path_name},
    )


@pytest.fixture
def module_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("clock")
    (folder / "tells_the_time.py").write_text(CLOCK)
    return f"{folder}:{':'.join(path for path in sys.path if path)}"


def _is_about(told: str, moved_by: timedelta) -> bool:
    return abs(datetime.fromisoformat(told) - datetime.now(UTC) - moved_by) < timedelta(hours=1)


def test_a_clock_is_wrong_from_the_start(module_path: str) -> None:
    said, _ = _clock(module_path, "-172800", "now", "tells_the_time").communicate(timeout=WAIT_S)
    assert [_is_about(told, timedelta(days=-2)) for told in said.split()] == [True, True]


def test_a_clock_goes_wrong_when_it_is_told_to(module_path: str) -> None:
    process = _clock(module_path, "172800", "signal", "tells_the_time", "wait")
    assert process.stdout is not None
    assert all(_is_about(told, timedelta(0)) for told in process.stdout.readline().split())
    process.send_signal(signal.SIGUSR1)
    said, _ = process.communicate("go on\n", timeout=WAIT_S)
    assert _is_about(said.strip(), timedelta(days=2))


def test_the_table_names_what_was_broken() -> None:
    fault = parse_fault("owner-3:kill@send")
    kept = CaseOutcome(
        fault=parse_fault("owner-2:kill@draw"),
        expected=expected(fault),
        end=End.ALL,
        charges={"owner-1": 1, "owner-2": 1, "owner-3": 0},
        commands={"owner-1": 2, "owner-2": 3, "owner-3": 0},
        said=("owner-2: a | b",),
        problems=(),
        too_slow=False,
        seconds=3.21,
    )
    broken = replace(kept, fault=fault, end=None, problems=("owner-3 was charged 2 times",))
    document = make_document([kept, broken], runtime="containers")
    assert document["failed"] == ["owner-3:kill@send"]
    text = make_markdown(document)
    assert text.startswith("1 of 2 cells keep every promise (containers).")
    assert "- **owner-3:kill@send**: owner-3 was charged 2 times" in text
    assert "| owner: draw | all |" in text
    assert "| owner: send | **no end: broken** |" in text
    assert "| `owner-2:kill@draw` | all | 1 1 0 | 2 3 0 | 3 | owner-2: a / b |" in text
