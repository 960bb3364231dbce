"""The newest Debian in a folder, with a copy of this checkout's last commit, for commands as root.

`debootstrap` fills the folder from a Debian mirror. A command sees it as its whole file system, by
`chroot`, in a space of mounts and processes of its own, which ends with the command: nothing is
mounted that would have to be unmounted. It has the machine's network.
"""

import ast
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.requirements import miss
from tools.install import run_pip

PACKAGES = ("python3", "python3-venv", "git", "make", "ca-certificates")
"""What the README asks for, and certificates, as an installed Debian has them."""
_ENTER = """
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" sh -c "cd /src && $1"
"""
_SPACE = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
_CA = "etc/ssl/certs/machine.pem"
_KEPT = {"cert", "index-url", "extra-index-url", "trusted-host", "proxy"}


class DebianRoot:
    """A fresh Debian, below ``folder``; the checkout is at ``/src`` there."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            miss("root", "run it as root: debootstrap makes the folders of a whole system")
        if shutil.which("debootstrap") is None:
            miss("debootstrap", "apt-get install debootstrap")
        self.folder = folder
        included = f"--include={','.join(PACKAGES)}"
        _call("debootstrap", "--variant=minbase", included, "stable", folder)
        for name in ("etc/resolv.conf", "etc/hosts"):
            shutil.copy(Path("/", name), folder / name)
        _call("git", "clone", "--quiet", ROOT, folder / "src")
        self._configure_pip()

    def run(self, command: str) -> str:
        """Run a command of the README; return what it printed, or fail with the end of it."""
        found = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        kept = {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
        line = [*_SPACE, "sh", "-e", "-c", _ENTER, str(self.folder), command]
        return _call(*line, env={**kept, **found})

    def _configure_pip(self) -> None:
        """Give the root what this machine's pip needs to reach its registry."""
        found = _pip_settings()
        if "cert" in found:
            shutil.copy(found["cert"], self.folder / _CA)
            found["cert"] = f"/{_CA}"
        lines = [f"{name} = {found[name]}" for name in sorted(_KEPT & found.keys())]
        (self.folder / "etc/pip.conf").write_text("\n".join(["[global]", *lines, ""]))


def _pip_settings() -> dict[str, str]:
    """What pip is configured with, each value in one line; a variable wins over a file."""
    said = run_pip("config", "list", capture=True).stdout.splitlines()
    found = dict[str, str]()
    for line in sorted(said, key=lambda each: each.startswith(":env:")):
        name, _, value = line.partition("=")
        found[name.rpartition(".")[2]] = " ".join(str(ast.literal_eval(value)).split())
    return found


def _call(*line: object, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [*map(str, line)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-6000:]}"
    return done.stdout
