"""A site whose rows are in PostgreSQL: what is released, charged, said, and left in its folder."""

import csv
import hashlib
import io
import stat
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from dppca.common.kernel.study import Study
from dppca.common.shell.console import progress
from dppca.owner.commands import consent
from dppca.owner.commands.contribute import ContributionOptions, contribute
from dppca.owner.commands.page.jobs import Job, PageDialogue, fingerprint
from dppca.owner.commands.preview import preview_contribution
from dppca.owner.records.table import Table
from dppca.owner.release.dialogue import Outline
from dppca.owner.site.config import load_site
from tests.support.curator import Curator
from tests.support.postgres import PostgresServer
from tests.support.sites import OwnerSite, error_of, make_enrolled_site, policy_text

QUERY = "SELECT age, sex, work FROM people WHERE note <> 'hidden-word'"
HIDDEN = ("hidden-word", "hidden-role", "/dppca-pg-")


@pytest.fixture
def site(curator: Curator, tmp_path: Path, postgres: PostgresServer) -> OwnerSite:
    """A site whose data set is a query of 300 rows."""
    site = make_enrolled_site(curator, tmp_path)
    postgres.run(
        "DROP TABLE IF EXISTS people, faulty",
        'DROP ROLE IF EXISTS "hidden-role"',
        "CREATE TABLE people (age int, sex text, work text, note text)",
        "INSERT INTO people SELECT 17 + i % 74, CASE WHEN i % 2 = 0 THEN 'Male' ELSE 'Female' END, "
        "'state', '' FROM generate_series(1, 300) i",
        'CREATE ROLE "hidden-role" LOGIN',
        'GRANT SELECT ON people TO "hidden-role"',
    )
    (site.folder / "people.sql").write_text(QUERY)
    (site.folder / "people.dsn").write_text(postgres.address("hidden-role"))
    (site.folder / "people.dsn").chmod(0o600)
    place = "source: {postgresql: {uri: {file: people.dsn}}}, query: people.sql"
    (site.folder / "policy.yaml").write_text(policy_text({"people": place}))
    return site


class _Terminal(io.StringIO):
    """A steward who types yes, after something has happened."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__("y\n")
        self._meanwhile = meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self, *arguments: Any) -> str:
        self._meanwhile()
        return super().readline(*arguments)


def _require_silence(site: OwnerSite, *printed: str) -> None:
    """Neither the query nor the address is in what was printed, or in any file but their own."""
    kept = {"people.sql", "people.dsn"}
    files = [path for path in site.folder.rglob("*") if path.is_file() and path.name not in kept]
    assert {"ledger.sqlite", "policy.yaml"} <= {path.name for path in files}
    for where, content in [
        *((p.name, p.read_bytes()) for p in files),
        ("", "".join(printed).encode()),
    ]:
        assert [word for word in HIDDEN if word.encode() in content] == [], where


def test_a_query_is_contributed_once_and_the_ledger_has_its_digest(
    site: OwnerSite, study: Study, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = [site.run(*line) for line in (["check", study.name], ["review", study.name])]
    code, done = site.contribute(study)
    assert (code, done["rows"]) == (0, 300)
    answers += [
        (code, done),
        site.run("budget"),
        site.run("doctor"),
        site.run("contribute", study.name),
    ]
    assert answers[-1][1]["already_stored"]
    assert "its role has no right to change rows" in str(answers[-2][1])
    (reservation,) = site.history.reservations
    assert reservation.request.query_sha256 == hashlib.sha256(QUERY.encode()).hexdigest()
    archive = site.folder.parent / "ledger.json"
    site.run("ledger", "export", str(archive))
    _require_silence(site, *map(str, answers), *capfd.readouterr())


def test_rows_that_came_during_the_question_are_said_and_released(
    site: OwnerSite, study: Study, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = "INSERT INTO people SELECT age, sex, work, note FROM people LIMIT 2"
    monkeypatch.setattr(sys, "stdin", _Terminal(lambda: postgres.run(insert)))
    said: list[str] = []
    monkeypatch.setattr(consent.Terminal, "tell", lambda _, text: said.append(text))
    code, done = site.run("contribute", study.name)
    assert (code, done["rows"]) == (0, 302)
    assert said == ["people has 302 rows now, not 300."]
    assert len(site.history.reservations) == 1


def test_rows_that_came_after_consent_on_a_page_are_said_and_released(
    site: OwnerSite, study: Study, postgres: PostgresServer
) -> None:
    found = load_site(site.folder)
    preview = preview_contribution(found, ContributionOptions(study.name), progress=progress)

    class Growing(PageDialogue):
        def begin(self, outline: Outline) -> None:
            super().begin(outline)
            postgres.run("INSERT INTO people SELECT age, sex, work, note FROM people LIMIT 2")

    job = Job(study.name, "It", consents=True)
    postgres.run("INSERT INTO people SELECT age, sex, work, note FROM people LIMIT 1")
    agreed = fingerprint(preview.outline, preview.private())
    contribute(found, ContributionOptions(study.name), Growing(job, agreed))
    n_rows = preview.review.n_rows
    assert [note.split(" has ")[1] for note in job.notes] == [
        f"{n_rows + 1} rows now.",
        f"{n_rows + 3} rows now, not {n_rows + 1}.",
    ]
    assert len(site.history.reservations) == 1


@pytest.mark.parametrize(
    ("command", "module"), [("check", "records.table"), ("review", "commands.contribute")]
)
def test_a_look_at_a_table_that_grows_is_at_one_moment(
    site: OwnerSite,
    study: Study,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    module: str,
) -> None:
    command_module = import_module(f"dppca.owner.{module}")
    opened = command_module.open_table

    def open_and_let_grow(*arguments: Any) -> Table:
        table: Table = opened(*arguments)
        postgres.run("INSERT INTO people SELECT * FROM people LIMIT 2")
        return table

    monkeypatch.setattr(command_module, "open_table", open_and_let_grow)
    code, found = site.run(command, study.name)
    assert code == 0, found
    assert found.get("coded_by_rule", found)["rows"] == 302


def test_more_rows_than_the_study_allows_are_refused_before_the_charge(
    curator: Curator, site: OwnerSite, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = curator.begin(site.name, max_rows=301)
    insert = "INSERT INTO people SELECT age, sex, work, note FROM people LIMIT 2"
    monkeypatch.setattr(sys, "stdin", _Terminal(lambda: postgres.run(insert)))
    code, message = error_of(site.run("contribute", study.name))
    assert code == 37, message
    assert site.history.length == 0


def test_a_query_that_changed_after_its_reservation_is_refused(
    site: OwnerSite, study: Study
) -> None:
    site.contribute(study, die_at="reserve")
    assert len(site.history.reservations) == 1
    (site.folder / "people.sql").write_text(QUERY + " AND age > 20")
    code, message = error_of(site.contribute(study))
    assert (code, len(site.history.reservations)) == (10, 1)
    assert "has changed since" in message
    (site.folder / "people.sql").write_text(QUERY)
    assert site.contribute(study)[0] == 0


def test_a_database_that_refuses_costs_nothing(
    site: OwnerSite, study: Study, postgres: PostgresServer
) -> None:
    postgres.run('REVOKE SELECT ON people FROM "hidden-role"')
    code, message = error_of(site.contribute(study))
    assert code == 13
    assert not any(word in message for word in HIDDEN)
    assert site.history.length == 0
    postgres.run('GRANT SELECT ON people TO "hidden-role"')
    assert site.contribute(study)[0] == 0
    assert len(site.history.reservations) == 1


def test_keys_of_rows_at_fault_go_to_a_private_file_and_nowhere_else(
    site: OwnerSite, study: Study, postgres: PostgresServer
) -> None:
    keys = site.folder.parent / "keys.csv"
    assert error_of(site.run("check", study.name, "--keys", str(keys)))[0] == 10, "no key: yet"
    postgres.run(
        "ALTER TABLE people ADD COLUMN person_id text",
        "UPDATE people SET person_id = 'P-' || age, sex = CASE age WHEN 20 THEN 'x' ELSE sex END",
        "UPDATE people SET work = NULL WHERE age = 21",
    )
    (site.folder / "people.sql").write_text("SELECT person_id, age, sex, work FROM people")
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("query:", "key: person_id, query:"))
    answer = site.run("check", study.name, "--keys", str(keys))
    assert answer[0] == 14
    assert answer[1]["keys"] == str(keys)
    assert "P-2" not in str(answer)
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    with keys.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["attribute", "fault", "person_id"]
    expected = {("sex", "unknown", "P-20"), ("work", "missing", "P-21")}
    assert {tuple(line) for line in lines[1:]} == expected
    assert len(lines[1:]) == sum(
        found["count"]
        for attribute in answer[1]["coded_by_rule"]["attributes"].values()
        for found in attribute["found"].values()
    )
    message = error_of(site.run("check", study.name, "--keys", str(keys)))[1]
    assert "exists" in message


@pytest.mark.parametrize("kind", ["database", "file"])
def test_more_rows_of_a_person_than_the_study_allows_are_neither_called_one_nor_released(
    site: OwnerSite, study: Study, postgres: PostgresServer, kind: str
) -> None:
    """Each of 10 people has 30 rows, and the study protects one."""
    postgres.run(
        "ALTER TABLE people ADD COLUMN person_id int",
        "UPDATE people SET person_id = age % 10",
    )
    most = postgres.value("SELECT max(n) FROM (SELECT count(*) n FROM people GROUP BY age % 10) q")
    columns = "person_id, age, sex, work"
    (site.folder / "people.sql").write_text(f"SELECT {columns} FROM people")
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("query:", "key: person_id, query:"))
    if kind == "file":
        with postgres.connection() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {columns} FROM people")
            parquet.write_table(cursor.fetch_arrow_table(), site.folder / "people.parquet")
        place = {"people": "path: people.parquet, key: person_id"}
        policy.write_text(policy_text(place))
    code, found = site.run("check", study.name)
    assert (code, found["coded_by_rule"]["key"]["most"]) == (14, most)
    code, shown = site.run("review", study.name)
    assert code == 19
    assert f"up to {most} rows have one person_id, and the study allows 1" in shown["refused"]
    assert not any("Nobody has more" in text for text in shown["asserted"])
    code, message = error_of(site.contribute(study))
    assert code == 19, message
    assert f"up to {most} times" in message
    assert site.history.length == 0
    if kind == "database":
        (site.folder / "people.sql").write_text(
            "SELECT DISTINCT ON (person_id) person_id, age, sex, work FROM people"
        )
        code, shown = site.run("review", study.name)
        assert (code, shown["coded_by_rule"]["key"]["most"]) == (0, 1)
        assert (
            "Nobody has more than one row here: each person_id is one person." in shown["asserted"]
        )
        assert site.contribute(study)[0] == 0


def test_rows_that_came_after_the_question_are_counted_by_person_again(
    site: OwnerSite, study: Study, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.run("ALTER TABLE people ADD COLUMN person_id serial")
    (site.folder / "people.sql").write_text("SELECT person_id, age, sex, work FROM people")
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("query:", "key: person_id, query:"))
    twice = "INSERT INTO people SELECT * FROM people LIMIT 1"
    monkeypatch.setattr(sys, "stdin", _Terminal(lambda: postgres.run(twice)))
    code, message = error_of(site.run("contribute", study.name))
    assert (code, "up to 2 rows have one person_id" in message) == (19, True)
    assert site.history.length == 0
