"""A data steward's site in a folder, with rows, a policy and a certificate."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from dppca.common.console import run
from dppca.common.testbed import environment
from dppca.common.transport.tls import Credentials, Role
from dppca.owner.cli import cli
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.reading import read_history
from dppca.owner.site.enrolment import enrol
from tests.support.certificates import write_credentials
from tests.support.curator import Curator
from tests.support.documents import require_documented
from tests.support.patience import WAIT_S


@dataclass(frozen=True, slots=True)
class OwnerSite:
    """A site's folder and the command that works on it."""

    folder: Path
    name: str

    def run(self, *arguments: str, die_at: str | None = None) -> tuple[int, Any]:
        """Exit code and JSON document (None without one) of one command.

        A command that is to die has a process of its own; the others run in this one, where
        nothing needs to be imported again.
        """
        line = ["--site", str(self.folder), *arguments, "--json"]
        code, printed = _in_process(line) if die_at is None else _in_its_own(line, die_at)
        return code, require_documented("dppca-owner", json.loads(printed)) if printed else None

    @property
    def history(self) -> History:
        """What the ledger says; verifies it."""
        return read_history(self.folder / "ledger.sqlite")


def error_of(answer: tuple[int, Any]) -> tuple[int, str]:
    """Exit code and message of a command that failed."""
    code, document = answer
    assert document["error"]["exit_code"] == code
    return code, document["error"]["message"]


def _in_process(line: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        run(cli, line)
    code = left.value.code
    assert isinstance(code, int)
    return code, out.getvalue()


def _in_its_own(line: list[str], die_at: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "dppca.owner.cli", *line],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        stdin=subprocess.DEVNULL,
        env=environment(f"kill@{die_at}"),
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def write_rows(path: Path, n_rows: int) -> Path:
    """Write rows of the attributes of `tests.support.census`, the same each time."""
    rng = np.random.default_rng(n_rows)
    rows = zip(
        rng.integers(17, 90, n_rows),
        rng.choice(["Female", "Male"], n_rows),
        rng.choice(["private", "state", "other"], n_rows),
        strict=True,
    )
    lines = ["age,sex,work", *(f"{age},{sex},{work}" for age, sex, work in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def make_site(
    folder: Path,
    *,
    name: str,
    curator: str,
    credentials: Credentials | None = None,
    epsilon: str = "3.0",
    n_rows: int = 200,
) -> OwnerSite:
    """A site with rows of the attributes of `tests.support.census`, as data set ``survey``."""
    enrol(folder, name=name, curator=curator)
    if credentials is not None:
        write_credentials(folder, credentials)
    (folder / "policy.yaml").write_text(
        f'data_sets:\n  survey: {{path: rows.csv, epsilon: "{epsilon}", delta: "0"}}\n'
    )
    write_rows(folder / "rows.csv", n_rows)
    return OwnerSite(folder, name)


def make_enrolled_site(
    curator: Curator, folder: Path, *, name: str = "", epsilon: str = "3.0"
) -> OwnerSite:
    """A site with a certificate of a running curator, which has never seen a nameless owner."""
    name = name or f"owner-{uuid4().hex[:12]}"
    credentials = curator.authority.issue(Role.OWNER, name)
    return make_site(
        folder / name,
        name=name,
        curator=curator.address,
        credentials=credentials,
        epsilon=epsilon,
    )
