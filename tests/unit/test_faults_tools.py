"""The link that is cut and slowed, the clock that is wrong, and the table that is printed."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from deploy.faults.catalogue import End, expected
from deploy.faults.cell import Outcome
from deploy.faults.page import document_of, markdown_of, page_of
from deploy.faults.relay import Relay
from deploy.faults.spec import parse_fault

WAIT_S = 60.0
NOTHING_COMES_S = 0.3


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(1000):
        writer.write(content)
        await writer.drain()
    writer.close()


async def _through_a_cut() -> list[bytes]:
    far = await asyncio.start_server(_echo, "127.0.0.1", 0)
    relay = Relay(lambda: far.sockets[0].getsockname()[:2])
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


async def _to_nowhere() -> bytes:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    relay = Relay(lambda: address)
    try:
        reader, writer = await asyncio.open_connection(*await relay.listen("127.0.0.1", 0))
        heard = await asyncio.wait_for(reader.read(), WAIT_S)
        writer.close()
    finally:
        await relay.close()
    return heard


def test_a_link_to_a_host_that_is_down_ends() -> None:
    assert asyncio.run(_to_nowhere()) == b""


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
        [sys.executable, "-m", "deploy.faults.skewed", *arguments],
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


def _outcome(written: str, end: End | None, *broken: str) -> Outcome:
    fault = parse_fault(written)
    return Outcome(
        fault=fault,
        expected=expected(fault),
        end=end,
        charges={"owner-1": 1, "owner-2": 1, "owner-3": 0},
        commands={"owner-1": 2, "owner-2": 3, "owner-3": 0},
        said=("owner-2: a | b",),
        problems=broken,
        too_slow=False,
        seconds=3.21,
    )


def test_the_table_shows_every_cell_and_names_what_was_broken() -> None:
    outcomes = [
        _outcome("owner-2:kill@draw", End.ALL),
        _outcome("owner-3:kill@send", None, "owner-3 was charged 2 times"),
        _outcome("curator:disk-full@store:5s", End.ALL),
        _outcome("owner-3:never", End.QUORUM),
    ]
    document = document_of(outcomes, runtime="containers")
    assert document["failed"] == ["owner-3:kill@send"]
    text = markdown_of(document)
    assert text.startswith("3 of 4 cells keep every promise (containers).")
    assert "- **owner-3:kill@send**: owner-3 was charged 2 times" in text
    assert "| owner: draw | all |  |" in text
    assert "| owner: send | **no end: broken** |  |" in text
    assert "| curator: store |  | all |" in text
    assert "| `owner-2:kill@draw` | all | 1 1 0 | 2 3 0 | 3 | owner-2: a / b |" in text
    page = page_of(document, everything=True, output="docs/faults.md")
    assert "dppca-simulate faults --all --runtime containers --output docs/faults.md" in page
    assert text in page
