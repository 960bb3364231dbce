"""The commands of ``docs/how-to/use-postgresql.md``, run as they stand there."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from dppca.common.study import Study
from tests.support.checkout import ROOT
from tests.support.patience import run_watched
from tests.support.postgres import PostgresServer
from tests.support.sites import OwnerSite

PAGE = (ROOT / "docs/how-to/use-postgresql.md").read_text()
BLOCKS = dict(re.findall(r"<!-- tested: ([\w-]+) -->\n```sh\n(.*?)```", PAGE, re.S))


def test_the_page_leads_from_a_role_to_a_contribution(
    postgres: PostgresServer, tmp_path: Path, site: OwnerSite, study: Study
) -> None:
    assert list(BLOCKS) == ["role", "service", "policy", "look", "contribute"]
    assert PAGE.count("```sh") == len(BLOCKS) + 1, "all blocks but the variables are run"
    # The role of the page has to give its password, as it has on a real server.
    hba = postgres.folder / "data" / "pg_hba.conf"
    hba.write_text("local all dppca_reader scram-sha-256\n" + hba.read_text())
    postgres.run(
        "DROP DATABASE IF EXISTS warehouse", "CREATE DATABASE warehouse", "SELECT pg_reload_conf()"
    )
    postgres.run_in(
        "warehouse",
        "CREATE TABLE people (person_id text, age int, sex text, work text, agreed bool)",
        "INSERT INTO people SELECT 'P' || i, 17 + i % 74, 'Male', 'state', i % 5 > 0 "
        "FROM generate_series(1, 500) i",
    )
    commands = tmp_path / "bin"
    commands.mkdir()
    script = commands / "dppca-owner"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dppca.owner.cli "$@"\n')
    script.chmod(0o755)
    environment = {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OPENBLAS_NUM_THREADS": "1",
        "HOME": str(tmp_path),
        "DB_HOST": str(postgres.folder),
        "DB": "warehouse",
        "SITE": str(site.folder),
        "STUDY": study.name,
    }
    (tmp_path / ".pg_service.conf").write_text(kept := "[other]\nhost=elsewhere\n")
    said = {}
    for name, block in BLOCKS.items():
        done = run_watched(["sh", "-euc", block], cwd=tmp_path, env=environment)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
        said[name] = done.stdout + done.stderr
    assert (tmp_path / ".pg_service.conf").read_text().startswith(kept)
    assert "400" in said["service"]
    assert "study " + study.name + " can be served by people (400 rows)" in " ".join(
        said["policy"].split()
    )
    assert "nothing in it may be changed" in " ".join(said["policy"].split())
    assert "No faults" in said["look"]
    assert (tmp_path / "keys.csv").read_text() == "attribute,fault,person_id\n"
    assert site.history.reservations[0].request.query_sha256
    assert "change-this" not in "".join(said.values())
