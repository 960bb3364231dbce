"""Commands of the how-to pages on studies and sources, run as they stand there."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import ChainError
from dppca.common.kernel.study import Study
from tests.support.census import census_rows
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.engines import write_files
from tests.support.object_store import BUCKET, object_store, upload
from tests.support.page_shell import PageShell, read_blocks
from tests.support.ports import reserved_port
from tests.support.postgres import PostgresServer
from tests.support.sites import OwnerSite, policy_text

DRAFT = ROOT / "docs/how-to/draft-a-study.md"


@pytest.mark.parametrize(("place", "n_attributes"), [(0, 6), (1, 2)], ids=["whole", "one-hot"])
def test_the_dictionaries_of_the_page_make_whole_studies(
    place: int, n_attributes: int, tmp_path: Path
) -> None:
    dictionaries = re.findall(r"^```csv\n(.*?)```", DRAFT.read_text(), re.DOTALL | re.MULTILINE)
    assert len(dictionaries) == 2
    (tmp_path / "dictionary.csv").write_text(dictionaries[place])
    printed = PageShell(tmp_path, read_blocks(DRAFT)).run("draft")
    assert f"attributes: {n_attributes}" in printed
    assert f"study.yaml is a valid study: heart, 2 owners, {n_attributes} attributes" in printed


PLAN = ROOT / "docs/how-to/plan-a-study.md"


def test_the_template_is_planned_as_the_page_says(tmp_path: Path) -> None:
    printed = PageShell(tmp_path, read_blocks(PLAN)).run("plan")
    totals = re.findall(r"3 owners, ([\d,]+) rows together", printed)
    assert totals == ["21000", "14900", "21000", "21000"]
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


POSTGRESQL = ROOT / "docs/how-to/use-postgresql.md"


def test_postgres_from_a_role_to_a_contribution(
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
    shell = PageShell(tmp_path, read_blocks(POSTGRESQL))
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
    assert "its role has no right to change rows" in " ".join(policy.split())
    assert "No faults" in look
    assert (tmp_path / "keys.csv").read_text() == "attribute,fault,person_id\n"
    assert site.history.reservations[0].request.query_sha256
    assert "change-this" not in "".join([role, service, policy, look, contribute])


OBJECT_STORE = ROOT / "docs/how-to/use-object-store.md"


def write_rows(folder: Path, n_files: int = 3, n_each: int = 100) -> None:
    """Parquet files in a folder, as a job leaves them."""
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for number in range(n_files):
        ages = [17 + (row + number) % 73 for row in range(n_each)]
        rows = {"age": ages, "sex": ["Male", "Female"] * (n_each // 2), "work": ["state"] * n_each}
        pa.parquet.write_table(pa.table(rows), folder / f"part-{number}.parquet")


def test_object_store_from_a_key_to_a_contribution(
    tmp_path: Path, site: OwnerSite, study: Study
) -> None:
    write_rows(tmp_path / "rows")
    blocks = read_blocks(OBJECT_STORE)
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as system:
        upload(system, tmp_path / "rows", below="heart/2026")
        shell = PageShell(tmp_path, blocks)
        shell.variables |= {
            # The test's server; its key is the page's.
            "AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"],
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_PROFILE": "dppca",
            "HOME": str(tmp_path),
            "BUCKET": BUCKET,
            "ROWS": "heart/2026",
            "SITE": str(site.folder),
            "STUDY": study.name,
        }
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws/credentials").write_text(kept := "[default]\naws_access_key_id = mine\n")
        said = [shell.run("key"), shell.run("policy"), shell.run("look")]
        assert not site.history.reservations
        said.append(shell.run("contribute"))
    assert (tmp_path / ".aws/credentials").read_text().startswith(kept)
    assert (tmp_path / ".aws/credentials").stat().st_mode & 0o777 == 0o600
    whole = " ".join("".join(said).split())
    assert f"study {study.name} can be served by people (300 rows)" in whole
    assert "No faults" in whole
    (charged,) = site.history.reservations
    assert charged.request.data_set == "people"
    assert BUCKET not in whole, "an address stands in no message"
    assert "and-this" not in whole


DASK = ROOT / "docs/how-to/use-dask.md"


@pytest.fixture
def dask_shell(tmp_path: Path) -> Iterator[PageShell]:
    """A shell with the command `dask`, and a port for a scheduler; what it started is ended."""
    shell = PageShell(tmp_path, read_blocks(DASK))
    command = tmp_path / "bin/dask"
    command.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH "{sys.executable}" -m dask "$@"\n')
    command.chmod(0o755)
    with reserved_port() as port:
        shell.variables["SCHEDULER"] = f"127.0.0.1:{port}"
        yield shell
    for file in ("worker.pid", "scheduler.pid"):
        if (tmp_path / file).exists():
            os.kill(int((tmp_path / file).read_text()), signal.SIGTERM)


def test_dask_from_certificates_to_a_contribution(
    dask_shell: PageShell, tmp_path: Path, site: OwnerSite, study: Study
) -> None:
    shell = dask_shell
    shell.variables |= {
        "SITE": str(site.folder),
        "STUDY": study.name,
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


CHOOSE_EPSILON = ROOT / "docs/how-to/choose-epsilon.md"
NUMBER = r"-?\d+\.?\d*(?:e-?\d+)?"


@pytest.fixture(scope="module")
def epsilon_shell(tmp_path_factory: pytest.TempPathFactory) -> PageShell:
    epsilon_shell = PageShell(tmp_path_factory.mktemp("page"), read_blocks(CHOOSE_EPSILON))
    epsilon_shell.run("study")
    return epsilon_shell


def require_same(block: str, output: str) -> None:
    """The page's lines are among those printed; figures to the last digits of a rehearsal."""
    shown = re.search(
        rf"<!-- printed: {block} -->\n```text\n(.*?)```", CHOOSE_EPSILON.read_text(), re.DOTALL
    )
    assert shown is not None
    for line in shown[1].splitlines():
        assert any(_is_same(line, each) for each in output.splitlines()), line


def _is_same(line: str, other: str) -> bool:
    words, figures = re.split(NUMBER, line), [float(each) for each in re.findall(NUMBER, line)]
    found = [float(each) for each in re.findall(NUMBER, other)]
    return [each.split() for each in words] == [
        each.split() for each in re.split(NUMBER, other)
    ] and figures == pytest.approx(found, rel=0.02, abs=0.01)


def test_many_rows_give_what_the_page_says(epsilon_shell: PageShell) -> None:
    require_same("many", epsilon_shell.run("many"))


def test_few_rows_give_what_the_page_says(epsilon_shell: PageShell) -> None:
    require_same("few", epsilon_shell.run("few"))


MOVE = ROOT / "docs/how-to/move-a-site.md"


def test_a_site_moves_and_charges_go_on(tmp_path: Path, site: OwnerSite, study: Study) -> None:
    blocks = read_blocks(MOVE)
    look = blocks["look"].replace("ledger recover ", "ledger recover --yes ", 1)
    shell = PageShell(tmp_path, {**blocks, "look": look})
    new = tmp_path / "elsewhere/site"
    shell.variables |= {"SITE": str(site.folder), "NEW": str(new)}
    (site.folder / "rows.csv").write_text("age,sex,work\n" + "40,Male,state\n" * 50)
    (site.folder / "policy.yaml").write_text(policy_text({"survey": "path: rows.csv"}))
    assert site.contribute(study)[0] == 0
    before = site.history
    shell.run("close")
    assert site.run("budget")[0] == 10, "the old folder is used no more"
    shell.run("copy")
    moved = OwnerSite(new, site.name)
    assert moved.contribute(study)[0] == ChainError.exit_code, "locked until its steward has spoken"
    assert "Nothing is broken" in " ".join(shell.run("look").split())
    shell.run("remove")
    assert not site.folder.with_name(f"{site.folder.name}.moved").exists()
    assert moved.history.reservations == before.reservations
    assert moved.contribute(study)[0] == 0, "the same bytes, at no further charge"
    assert moved.history.reservations == before.reservations


CONSENT = ROOT / "docs/how-to/consent-on-a-page.md"


def test_a_steward_is_told_before_a_deadline(
    curator: Curator, site: OwnerSite, tmp_path: Path
) -> None:
    shell = PageShell(tmp_path, read_blocks(CONSENT))
    (tmp_path / "hospital").symlink_to(site.folder)
    assert shell.run("due") == ""
    end = (utc_now() + timedelta(days=2)).isoformat()
    late = curator.begin(site.name, "owner-2", deadline=end, quorum=1)
    curator.begin(site.name)
    assert re.findall(r"^(\S+): open", shell.run("due"), re.MULTILINE) == [late.name]
