"""A curator that is away for a while: owners' commands go on, and are back soon after it is."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dppca.common.kernel.identity.tls import Role
from dppca.common.transport.channels import SILENT_S
from dppca.common.transport.testbed import environment
from tests.fault_injection.relay import Relay
from tests.support.curator import Curator
from tests.support.patience import WAIT_S, wait_until
from tests.support.sites import OwnerSite, make_site

BACK_S = 30.0
"""Longest time until a command is back."""


class Absence:
    """A curator behind a relay, an owner that has contributed, and one that may."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.curator = Curator(folder / "hub").start()
        stack.callback(self.curator.stop)
        self.relay = Relay(lambda: self.curator.address)
        stack.callback(self.relay.close)
        self.first, self.second = (self._make_site(f"owner-{n}") for n in (1, 2))
        self.study = self.curator.begin(self.first.name, self.second.name)

    def _make_site(self, name: str) -> OwnerSite:
        issued = self.curator.authority.issue(Role.OWNER, name)
        folder = self._folder / name
        return make_site(folder, name=name, curator=self.relay.address, credentials=issued)

    def begin(self, site: OwnerSite, *line: str) -> subprocess.Popen[str]:
        """Start a command at a site; what it prints is in the site's folder."""
        with (site.folder / "printed").open("w") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "dppca.owner.cli", "--site", site.folder, *line],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env=environment(None),
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def until_printed(self, site: OwnerSite, words: str) -> None:
        printed = site.folder / "printed"
        wait_until(lambda: words in printed.read_text(), said=printed.read_text)


@pytest.fixture
def absence(tmp_path: Path) -> Iterator[Absence]:
    with ExitStack() as stack:
        yield Absence(tmp_path, stack)


@pytest.mark.parametrize(
    "line",
    [("components", "--wait", "1000"), ("contribute", "--yes"), ("studies", "--watch")],
    ids=lambda line: line[0],
)
def test_a_command_goes_on_through_a_restart(absence: Absence, line: tuple[str, ...]) -> None:
    site, study, curator = absence.first, absence.study, absence.curator
    command, *options = line
    curator.terminate()
    named = [] if command == "studies" else [study.name]
    process = absence.begin(site, command, *named, *options)
    absence.until_printed(site, "not known now" if command == "studies" else "Trying again until")
    assert process.poll() is None
    curator.start()
    began = time.monotonic()
    if command == "components":
        for each in (absence.first, absence.second):
            assert each.contribute(study)[0] == 0
    if command == "studies":
        absence.until_printed(site, f"{study.name}: open")
        assert process.poll() is None
    else:
        assert process.wait(WAIT_S) == 0, (site.folder / "printed").read_text()
    assert time.monotonic() - began < BACK_S


def test_a_wait_dials_anew_where_its_connection_has_gone_silent(absence: Absence) -> None:
    site, study = absence.first, absence.study
    process = absence.begin(site, "components", study.name, "--wait", "1000")
    wait_until(lambda: (site.folder / "studies" / study.name / "study.json").exists())
    absence.relay.forget()
    began = time.monotonic()
    taken = absence.relay.taken
    wait_until(lambda: absence.relay.taken > taken)
    assert time.monotonic() - began < SILENT_S + 5
    for each in (absence.first, absence.second):
        assert each.contribute(study)[0] == 0
    assert process.wait(WAIT_S) == 0, (site.folder / "printed").read_text()


def test_a_contribution_begins_while_nobody_answers(absence: Absence) -> None:
    """As while a curator starts behind a tunnel: connections are taken, and stay silent."""
    site, study = absence.first, absence.study
    absence.relay.is_cut = True
    process = absence.begin(site, "contribute", study.name, "--yes")
    absence.until_printed(site, "Trying again until")
    absence.relay.is_cut = False
    began = time.monotonic()
    assert process.wait(WAIT_S) == 0, (site.folder / "printed").read_text()
    assert time.monotonic() - began < BACK_S


def test_without_patience_a_curator_that_is_away_ends_a_command(absence: Absence) -> None:
    absence.curator.terminate()
    for line in (("components",), ("contribute", "--yes", "--wait", "0")):
        code, document = absence.first.run(line[0], absence.study.name, *line[1:])
        assert code == 40
        assert "cannot be reached" in document["error"]["message"]
