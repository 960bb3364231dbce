"""Work of a page that takes long: it can be left, stopped, and ended with Ctrl-C."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import adbc_driver_postgresql.dbapi
import pytest
from playwright.sync_api import Page, expect

from dppca.common.kernel.study import Study
from tests.support.browser import OpenSite, agree, look_again_until, require_accessible
from tests.support.curator import Curator
from tests.support.patience import WAIT_S
from tests.support.postgres import PostgresServer
from tests.support.sites import OwnerSite, make_enrolled_site, policy_text

# Queries of the rows wait as long as another session holds this lock, as for a busy server.
_WAIT = """CREATE OR REPLACE FUNCTION wait_for_test() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    WHILE NOT pg_try_advisory_lock_shared(147) LOOP PERFORM pg_sleep(0.05); END LOOP;
    RETURN pg_advisory_unlock_shared(147);
END $$"""


@pytest.fixture
def site(curator: Curator, tmp_path: Path, postgres: PostgresServer) -> OwnerSite:
    """A site with 300 rows in a database."""
    site = make_enrolled_site(curator, tmp_path)
    postgres.run(
        "DROP VIEW IF EXISTS slow_people",
        "DROP TABLE IF EXISTS people_rows",
        "CREATE TABLE people_rows (age int, sex text, work text)",
        _WAIT,
        "CREATE VIEW slow_people AS SELECT * FROM people_rows WHERE (SELECT wait_for_test())",
        "INSERT INTO people_rows SELECT 17 + i % 74, CASE WHEN i % 2 = 0 THEN 'Male' "
        "ELSE 'Female' END, 'state' FROM generate_series(1, 300) i",
    )
    (site.folder / "people.dsn").write_text(postgres.address())
    (site.folder / "people.dsn").chmod(0o600)
    place = "source: {postgresql: {uri: {file: people.dsn}}}, table: slow_people"
    (site.folder / "policy.yaml").write_text(policy_text({"people": place}))
    return site


@contextmanager
def _locked(postgres: PostgresServer) -> Iterator[None]:
    """The database answers no question about the rows while the block runs."""
    with (
        closing(adbc_driver_postgresql.dbapi.connect(postgres.address())) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute("SELECT pg_advisory_lock(147)")
        cursor.fetchall()
        yield


def _stop(page: Page) -> None:
    page.get_by_role("button", name="Stop it").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was drawn, charged or sent")


def test_a_review_of_slow_rows_is_left_stopped_and_begun_again(
    site: OwnerSite, postgres: PostgresServer, open_site: OpenSite, study: Study
) -> None:
    with open_site(site) as (seen, _):
        page = seen.page
        page.get_by_role("link", name=study.name).click()
        with _locked(postgres):
            page.get_by_role("link", name="Review what would leave").click()
            under_way = page.get_by_text(f"The review of {study.name} is under way")
            expect(under_way).to_be_visible()
            require_accessible(page)
            page.get_by_role("link", name="Budget and ledger").click()
            expect(page.get_by_text("The chain verifies")).to_be_visible()
            page.go_back()
            _stop(page)
            page.get_by_role("link", name="Review what would leave").click()
            expect(under_way).to_be_visible()
        # The page looks by itself.
        expect(page.get_by_text("What leaves, once")).to_be_visible()
        seen.require_quiet()
    assert not site.history.reservations


def test_a_contribution_is_stopped_before_the_charge_and_a_review_by_ctrl_c(
    curator: Curator, site: OwnerSite, postgres: PostgresServer, open_site: OpenSite
) -> None:
    study = curator.begin(site.name, "absent")
    with open_site(site, java_script_enabled=False) as (seen, served):
        page = seen.page
        page.get_by_role("link", name=study.name).click()
        page.get_by_role("link", name="Review what would leave").click()
        look_again_until(page, "What leaves, once")
        # The review is counted; whoever asks for the rows from now on waits.
        with _locked(postgres):
            agree(page)
            expect(page.get_by_text("is under way")).to_be_visible()
            look_again_until(page, "You can stop it")
            _stop(page)
            assert not site.history.reservations
            page.get_by_role("link", name="Review what would leave").click()
            expect(page.get_by_text(f"The review of {study.name} is under way")).to_be_visible()
            served.process.send_signal(2)
            assert served.process.wait(WAIT_S) == 0
    said = served.said()
    assert f"The review of {study.name}: it was stopped" in said
    assert "Nothing was charged by this command" in said
    assert not site.history.reservations
