import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from dppca.common.kernel.errors import LedgerError
from dppca.owner.ledger.lock import lock_site
from tests.support.patience import WAIT_S

_HOLD = (
    "import sys, time; from pathlib import Path\n"
    "from dppca.owner.ledger.lock import lock_site\n"
    "with lock_site(Path(sys.argv[1]), wait_s=0):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(600)\n"
)


def test_a_lock_is_private_stays_and_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "site.lock"
    with lock_site(path, wait_s=0):
        inode = path.stat().st_ino
    with lock_site(path, wait_s=0):
        pass
    assert path.stat().st_ino == inode
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b""


def test_a_second_holder_waits_as_long_as_it_said(tmp_path: Path) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    with (
        lock_site(tmp_path / "lock", wait_s=0),
        pytest.raises(LedgerError, match="another command"),
        lock_site(tmp_path / "lock", wait_s=7, clock=lambda: now, sleep=sleep),
    ):
        pass
    assert now == pytest.approx(7, abs=0.2)


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LedgerError, match="another command"), lock_site(path, wait_s=0):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with lock_site(path, wait_s=0):
        pass


def test_no_child_inherits_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock_site(path, wait_s=0):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, close_fds=False)
    try:
        with lock_site(path, wait_s=WAIT_S):  # the kernel may still be at work on the child's start
            pass
    finally:
        child.communicate(b"\n")


def test_a_disk_that_has_turned_read_only_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", read_only)
    with (
        pytest.raises(LedgerError, match="Read-only file system: make its disk writable"),
        lock_site(tmp_path / "lock", wait_s=0),
    ):
        pass


def test_a_file_system_without_locks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_descriptor: int, *, blocking: bool) -> bool:
        assert not blocking
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("dppca.owner.ledger.lock.lock_descriptor", none)
    with (
        pytest.raises(LedgerError, match="keep its folder on a local disk"),
        lock_site(tmp_path / "lock", wait_s=0),
    ):
        pass
