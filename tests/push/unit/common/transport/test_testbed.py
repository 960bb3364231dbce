"""Processes of a testbed end, and say whose fault it was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.errors import DppcaError, PeerError, SettingError
from dppca.common.transport import preloaded
from dppca.common.transport.preloaded import ForkedCommand
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


@pytest.mark.skipif(not preloaded.AVAILABLE, reason="this system does not fork commands")
def test_a_process_that_is_alone_forks_commands_that_share_what_it_has_loaded(
    tmp_path: Path,
) -> None:
    (tmp_path / "told.py").write_text(
        "import json, os, signal, sys\n"
        "from threadpoolctl import threadpool_info\n"
        "def main():\n"
        "    print(json.dumps([os.getpid(), os.getsid(0), os.environ['OPENBLAS_NUM_THREADS'],\n"
        "        [i['num_threads'] for i in threadpool_info() if i['user_api'] == 'blas'],\n"
        "        'numpy' in sys.modules, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL]))\n"
        "    sys.stdout.flush()\n"
        "    os._exit(int(sys.argv[1]))\n"
    )
    (tmp_path / "alone.py").write_text(
        "import json, os, signal, sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from dppca.common.kernel.errors import DppcaError\n"
        "from dppca.common.transport import preloaded\n"
        "from dppca.common.transport.testbed import Processes, environment\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "assert 'numpy' not in sys.modules\n"
        "assert preloaded.load(['numpy'], environment(), alone=True)\n"
        "assert 'numpy' in sys.modules\n"
        "for _ in range(2):  # what is loaded outlives the processes of one run\n"
        "    with Processes(['numpy']) as live:\n"
        "        print(json.dumps(live.call('owner-1', 'told', 0).document))\n"
        "        try:\n"
        "            live.call('owner-2', 'told', 3)\n"
        "        except DppcaError as error:\n"
        "            print(json.dumps(str(error)))\n"
        "preloaded.unload()\n"
        "assert preloaded._forker is None\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", tmp_path / "alone.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, failed, second, _ = map(json.loads, done.stdout.splitlines())
    for told in (first, second):
        assert told[0] == told[1], "the leader of its session"
        assert told[2:] == ["1", [1] * len(told[3]), True, True]
        assert told[3]
    assert failed.startswith("owner-2: ")


@pytest.mark.skipif(not preloaded.AVAILABLE, reason="this system does not fork commands")
def test_commands_are_not_waited_for_if_what_they_were_forked_from_is_gone(tmp_path: Path) -> None:
    with Processes(FORKED) as live:
        process = live.begin(
            ["-P", "-m", *SLEEP], output=tmp_path / "output", errors=tmp_path / "errors"
        )
        assert isinstance(process, ForkedCommand)
        parent = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL
        with pytest.raises(PeerError, match="forked from has ended"):
            live.call("owner-1", "dppca.owner.cli", "budget")
        os.kill(process.pid, signal.SIGKILL)


def test_commands_are_started_one_by_one_where_a_fork_would_be_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPATH may change each process at its start."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("dppca.common.transport.testbed.ForkedCommand", None)  # none is made
    with Processes(FORKED) as live, pytest.raises(SettingError, match=r"^owner-1: no site"):
        live.call("owner-1", "dppca.owner.cli", "--site", str(tmp_path / "none"), "budget")
