"""Processes of a testbed end, and say whose fault it was."""

from pathlib import Path

import pytest

from dppca.common.errors import DppcaError, PeerError, SettingError
from dppca.common.transport.testbed import LocalCurator, Processes

# `timeit` runs text given as an argument and needs no file of its own.
SLEEP = ("timeit", "-n1", "-r1", "import time; time.sleep(36000)")


def test_a_party_is_named_with_its_own_error_or_its_last_words(tmp_path: Path) -> None:
    with Processes() as live, pytest.raises(SettingError, match=r"^owner-1: ") as caught:
        live.call("owner-1", "dppca.owner.cli", "--site", str(tmp_path), "budget")
    assert type(caught.value) is SettingError
    with Processes() as live, pytest.raises(PeerError, match=r"owner-1: .*No module named nobody"):
        live.call("owner-1", "nobody")


def test_the_first_failure_stops_the_others() -> None:
    def act(arguments: tuple[str, ...]) -> None:
        live.call("somebody", *arguments)

    # Were they not stopped, this would last ten hours.
    with Processes() as live, pytest.raises(DppcaError, match="No module named nobody"):
        live.each([SLEEP, ("nobody",), SLEEP, SLEEP, SLEEP, SLEEP], act)


def test_nothing_starts_once_a_simulation_is_being_stopped() -> None:
    with Processes() as live:
        live.stop()
        with pytest.raises(PeerError, match="being stopped"):
            live.call("owner-1", *SLEEP)


def test_a_service_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    with Processes() as live, pytest.raises(PeerError, match=r"curator: .*No module named nobody"):
        LocalCurator(live, tmp_path, tmp_path).start("-m", "nobody")
