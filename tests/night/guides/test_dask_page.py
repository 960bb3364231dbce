"""The commands of ``docs/how-to/use-dask.md``, run as they stand there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dppca.common.study import Study
from tests.support.census import census_rows
from tests.support.checkout import ROOT
from tests.support.engines import write_files
from tests.support.page_shell import PageShell, read_blocks
from tests.support.ports import reserved_port
from tests.support.sites import OwnerSite

PAGE = ROOT / "docs/how-to/use-dask.md"


@pytest.fixture
def port() -> Iterator[int]:
    """Where the scheduler is to listen."""
    with reserved_port() as port:
        yield port


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[PageShell]:
    """A shell with the command `dask`; what it started is ended."""
    shell = PageShell(tmp_path, read_blocks(PAGE))
    command = tmp_path / "bin/dask"
    command.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH "{sys.executable}" -m dask "$@"\n')
    command.chmod(0o755)
    yield shell
    for file in ("worker.pid", "scheduler.pid"):
        if (tmp_path / file).exists():
            os.kill(int((tmp_path / file).read_text()), signal.SIGTERM)


def test_the_page_leads_from_certificates_to_a_contribution(
    shell: PageShell, tmp_path: Path, site: OwnerSite, study: Study, port: int
) -> None:
    shell.variables |= {
        "SITE": str(site.folder),
        "STUDY": study.name,
        "SCHEDULER": f"127.0.0.1:{port}",
        "ROWS": str(write_files(census_rows(400), tmp_path / "rows", 5)),
    }
    shell.run("certificates")
    shell.run("scheduler")
    shell.run("worker")
    said = " ".join(shell.run("policy").split())
    assert "people: every worker is like this machine" in said
    assert "400 rows" in " ".join(shell.run("contribute").split())
    (reservation,) = site.history.reservations
    assert reservation.request.engine == "dask"
    for key in (site.folder / "cluster/key.pem", tmp_path / "machines/key.pem"):
        assert key.stat().st_mode & 0o077 == 0
