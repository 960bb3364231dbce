"""A data steward's site in a folder, with rows, a policy and a certificate."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.checkpoints import VARIABLE
from common.console import run
from common.transport.tls import Credentials
from owner.cli import cli
from owner.enrolment import enrol
from owner.ledger.chain import History
from owner.ledger.database import read_history
from tests.support.daemon import write_credentials

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class OwnerSite:
    """A site's folder and the command that works on it."""

    folder: Path
    name: str

    def run(self, *arguments: str, die_at: str | None = None) -> tuple[int, Any]:
        """Exit code and JSON document (None without one) of one command.

        A command that is to die has a process of its own; the others run in this one, where
        nothing needs to be imported anew.
        """
        line = ["--site", str(self.folder), *arguments, "--json"]
        code, printed = _in_process(line) if die_at is None else _in_its_own(line, die_at)
        return code, json.loads(printed) if printed else None

    @property
    def history(self) -> History:
        """What the ledger says; verifies it."""
        return read_history(self.folder / "ledger.sqlite")


def _in_process(line: list[str]) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        run(cli, line)
    code = left.value.code
    assert isinstance(code, int)
    return code, out.getvalue()


def _in_its_own(line: list[str], die_at: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "owner.cli", *line],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", VARIABLE: f"kill@{die_at}"},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def make_site(
    folder: Path,
    *,
    name: str,
    curator: str,
    credentials: Credentials | None = None,
    epsilon: str = "3.0",
    n_rows: int = 200,
) -> OwnerSite:
    """A site with rows of the attributes of `tests.support.hub`, as data set ``survey``."""
    enrol(folder, name=name, curator=curator)
    if credentials is not None:
        write_credentials(folder, credentials)
    (folder / "policy.yaml").write_text(
        f'data_sets:\n  survey: {{path: rows.csv, epsilon: "{epsilon}", delta: "0"}}\n'
    )
    rng = np.random.default_rng(n_rows)
    rows = zip(
        rng.integers(17, 90, n_rows),
        rng.choice(["Female", "Male"], n_rows),
        rng.choice(["private", "state", "other"], n_rows),
        strict=True,
    )
    lines = ["age,sex,work", *(f"{age},{sex},{work}" for age, sex, work in rows)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return OwnerSite(folder, name)
