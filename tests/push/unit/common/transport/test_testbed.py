"""Processes of a testbed end, and say whose fault it was."""

import os
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.errors import DppcaError, PeerError, SettingError
from dppca.common.transport import preloaded
from dppca.common.transport.testbed import LocalCurator, Processes

# `timeit` runs text given as an argument and needs no file of its own.
FORKED = ("dppca.owner.cli",)
EACH_WAY = pytest.mark.parametrize("preload", [(), FORKED], ids=["started", "forked"])
SLEEP = ("timeit", "-n1", "-r1", "import time; time.sleep(36000)")


@EACH_WAY
def test_a_party_is_named_with_its_own_error_or_its_last_words(
    tmp_path: Path, preload: tuple[str, ...]
) -> None:
    with Processes(preload) as live, pytest.raises(SettingError, match=r"^owner-1: ") as caught:
        live.call("owner-1", "dppca.owner.cli", "--site", str(tmp_path), "budget")
    assert type(caught.value) is SettingError
    with (
        Processes(preload) as live,
        pytest.raises(PeerError, match=r"(?s)owner-1: .*No module named '?nobody"),
    ):
        live.call("owner-1", "nobody")


@EACH_WAY
def test_the_first_failure_stops_the_others(preload: tuple[str, ...]) -> None:
    def act(arguments: tuple[str, ...]) -> None:
        live.call("somebody", *arguments)

    # Were they not stopped, this would last ten hours.
    with Processes(preload) as live, pytest.raises(DppcaError, match=r"No module named '?nobody"):
        live.each([SLEEP, ("nobody",), SLEEP, SLEEP, SLEEP, SLEEP], act)


@EACH_WAY
def test_nothing_starts_once_a_simulation_is_being_stopped(preload: tuple[str, ...]) -> None:
    with Processes(preload) as live:
        live.stop()
        with pytest.raises(PeerError, match="being stopped"):
            live.call("owner-1", *SLEEP)


def test_a_service_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    with Processes() as live, pytest.raises(PeerError, match=r"curator: .*No module named nobody"):
        LocalCurator(live, tmp_path, tmp_path).start("-m", "nobody")


@pytest.mark.skipif(not preloaded.AVAILABLE, reason="this system does not fork commands")
def test_a_forked_command_is_a_process_and_a_session_of_its_own_with_a_partys_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPPCA_SITE", "of a real site")
    (tmp_path / "told.py").write_text(
        "import json, os, sys\n"
        "def main():\n"
        "    print(json.dumps([os.getpid(), os.getsid(0), sys.argv[1:], dict(os.environ),\n"
        "        'dppca.owner.site.config' in sys.modules]))\n"
        "    os._exit(sys.stdout.flush() or 0)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Processes(("dppca.owner.site.config",)) as live:
        told: list[Any] = [live.call("owner-1", "told", number).document for number in (1, 2)]
    assert [each[0] for each in told] == [each[1] for each in told], "the leader of its session"
    assert len({os.getpid(), *(each[0] for each in told)}) == 3
    assert [each[2] for each in told] == [["1", "--json"], ["2", "--json"]]
    assert all(each[3]["OPENBLAS_NUM_THREADS"] == "1" for each in told)
    assert all("DPPCA_SITE" not in each[3] for each in told)
    assert all(each[4] for each in told), "loaded before it began"
    assert os.environ["DPPCA_SITE"] == "of a real site"


@pytest.mark.parametrize("place", ["PYTHONPATH", "TMPDIR"])
def test_commands_are_started_one_by_one_where_a_fork_would_be_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """PYTHONPATH may change each process at its start; a socket needs a short path."""
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setenv(place, str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder) if place == "TMPDIR" else None)
    monkeypatch.setattr("multiprocessing.util.get_temp_dir", lambda: str(folder))
    monkeypatch.setattr("dppca.common.transport.testbed.ForkedCommand", None)  # none is made
    with Processes(FORKED) as live, pytest.raises(SettingError, match=r"^owner-1: no site"):
        live.call("owner-1", "dppca.owner.cli", "--site", str(tmp_path / "none"), "budget")
