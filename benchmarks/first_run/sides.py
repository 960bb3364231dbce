"""The two revisions: clones of them, and what their own Makefiles install there."""

import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.environments import ROOT
from benchmarks.first_run.measuring import RunError, Taken, take

CACHES = {"PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv"}
"""Folders of what installers keep; each installation begins with empty ones of its own."""
INSTALLED = (".venv", "build")


@dataclass(frozen=True, slots=True)
class Installation:
    """A revision that was installed.

    Attributes
    ----------
    folder, programs
        The clone, and the folder of its environment's commands.
    taken
        What ``make`` took.
    """

    folder: Path
    programs: Path
    taken: Taken

    def count_packages(self) -> int:
        """Distributions in the environment, this software included."""
        return len([*self.programs.parent.glob("lib/python*/site-packages/*.dist-info")])

    def measure_disk(self) -> int:
        """Bytes on the disk of all that was installed, in the environment and beside it."""
        folders = [self.folder / name for name in INSTALLED if (self.folder / name).exists()]
        said = _run("du", "--summarize", "--total", "--block-size=1", *folders)
        return int(said.splitlines()[-1].split()[0])


@dataclass(slots=True)
class Side:
    """One of the two revisions.

    Attributes
    ----------
    revision
        As git names it, short.
    folder
        Where its clones are made.
    repository
        What is cloned.
    """

    revision: str
    folder: Path
    repository: Path = ROOT
    _kept: dict[str, Installation] = field(default_factory=dict)

    def install(self, target: str) -> Installation:
        """Make a target in a fresh clone, with empty caches; raise `RunError`.

        The first clone of each target is kept for commands to be tried in; there is room for one
        more.
        """
        folder = self.folder / (f"{target}-again" if target in self._kept else target)
        shutil.rmtree(folder, ignore_errors=True)
        _run("git", "clone", "--quiet", self.repository, folder)
        _run("git", "-C", folder, "checkout", "--quiet", "--detach", self.revision)
        with tempfile.TemporaryDirectory(dir=self.folder) as empty:
            caches = {name: f"{empty}/{each}" for name, each in CACHES.items()}
            taken = take(["make", target], folder, variables=caches)
        return self.keep(target, Installation(folder, folder / ".venv/bin", taken))

    def keep(self, target: str, made: Installation) -> Installation:
        """Let `find` return this, unless there is an older one."""
        self._kept.setdefault(target, made)
        return made

    def find(self, target: str) -> Installation:
        """The clone that was kept; made now if there is none."""
        return self._kept.get(target) or self.install(target)


def find_revision(name: str) -> str:
    """The short name of a revision of this checkout; raise `RunError`."""
    asked = ("rev-parse", "--short", "--verify", f"{name}^{{commit}}")
    return _run("git", "-C", ROOT, *asked).strip()


def _run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout
