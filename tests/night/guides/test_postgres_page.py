"""The commands of ``docs/how-to/use-postgresql.md``, run as they stand there."""

from __future__ import annotations

from pathlib import Path

from dppca.common.study import Study
from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks
from tests.support.postgres import PostgresServer
from tests.support.sites import OwnerSite

PAGE = ROOT / "docs/how-to/use-postgresql.md"


def test_the_page_leads_from_a_role_to_a_contribution(
    postgres: PostgresServer, tmp_path: Path, site: OwnerSite, study: Study
) -> None:
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
    shell = PageShell(tmp_path, read_blocks(PAGE))
    shell.variables |= {
        "HOME": str(tmp_path),
        "DB_HOST": str(postgres.folder),
        "DB": "warehouse",
        "SITE": str(site.folder),
        "STUDY": study.name,
    }
    (tmp_path / ".pg_service.conf").write_text(kept := "[other]\nhost=elsewhere\n")
    role, service, policy = shell.run("role"), shell.run("service"), shell.run("policy")
    look, contribute = shell.run("look"), shell.run("contribute")
    assert (tmp_path / ".pg_service.conf").read_text().startswith(kept)
    assert "400" in service
    assert "study " + study.name + " can be served by people (400 rows)" in " ".join(policy.split())
    assert "nothing in it may be changed" in " ".join(policy.split())
    assert "No faults" in look
    assert (tmp_path / "keys.csv").read_text() == "attribute,fault,person_id\n"
    assert site.history.reservations[0].request.query_sha256
    assert "change-this" not in "".join([role, service, policy, look, contribute])
