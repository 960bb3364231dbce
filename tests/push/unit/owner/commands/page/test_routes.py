"""A review can be asked for again, however the one before it ended; a comparison can be stopped."""

import html
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dppca.common.analysis.estimates.reasons import ruled_out
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import DataError, DppcaError, IdentityError, UnreachableError
from dppca.common.kernel.schema.coding import Column
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.common.pages.guard import COOKIE, FORM_TOKEN
from dppca.owner.commands import contribute, preview
from dppca.owner.commands.contribute import ContributionOptions
from dppca.owner.commands.page import consent_pages, file_pages, study_pages
from dppca.owner.commands.page.jobs import Job
from dppca.owner.commands.page.routes import StewardApp
from dppca.owner.records.table import Table
from dppca.owner.site.config import Site, load_site
from tests.support.asgi import Answer, ask
from tests.support.patience import WAIT_S
from tests.support.sites import N_ROWS, make_trained_site

STUDY = "site-test"


class _Browser:
    """The browser that has logged in, at a site whose curator answers with one study."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        site, self.study = make_trained_site(folder)
        self.answer_with(self.study, monkeypatch)
        self.policy = site.folder / "policy.yaml"
        self.pages = StewardApp(load_site(site.folder))
        self._app = self.pages.application()

    def answer_with(self, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the curator have this study from now on."""
        for module in (consent_pages, preview):
            monkeypatch.setattr(module, "connect", lambda _, **__: nullcontext())
            found = (study, StudyState.OPEN)
            monkeypatch.setattr(module, "agreed_study", lambda *_, found=found, **__: found)

    def get(self, path: str) -> Answer:
        """A page, below the session's place where that does not begin it."""
        session = self.pages.session
        target = path if path.startswith(session.place) else session.place + path
        return ask(self._app, target, cookie=f"{COOKIE}={session.cookie}")

    def post(self, path: str, **fields: str) -> None:
        """Send a form that begins a job, with all ticks."""
        session = self.pages.session
        ticks = {f"tick-{place}": "yes" for place in (1, 2)}
        form = {FORM_TOKEN: session.form_token, **ticks, **fields}
        cookie = f"{COOKIE}={session.cookie}"
        assert ask(self._app, session.place + path, form=form, cookie=cookie).status == 303

    def job(self) -> Job:
        """The last work, once its thread has ended."""
        job = self.pages.jobs.of(STUDY)
        assert job is not None
        assert job.thread is not None
        job.thread.join(WAIT_S)
        return job

    def look(self, path: str) -> Answer:
        """Ask for a review, and for the page that is shown once its rows are read."""
        asked = self.get(path)
        assert asked.status == 303
        self.job()
        return self.get(asked.headers["location"])

    def link(self, answer: Answer, text: str) -> str:
        """Where a link of a page leads."""
        assert answer.status == 200, answer.body
        found = re.search(rf'href="([^"]*)">{text}<', answer.body)
        assert found is not None
        return html.unescape(found[1])


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Browser:
    """A site with one data set."""
    return _Browser(tmp_path / "site", monkeypatch)


def test_a_secret_number_is_printed_nowhere_but_where_it_is_said_to_stay(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = browser.study.model_dump(mode="json", by_alias=True, exclude={"max_rows"})
    written["schema"]["neighbours"] = "added"
    browser.answer_with(study_from_mapping(written), monkeypatch)
    page = browser.look(f"/study/{STUDY}/review")
    assert page.status == 200, page.body
    shown = f"{N_ROWS:,}"
    assert "noised numbers on a secret number of rows" in page.body
    assert f'leaves with noise only<span class="no-print">: {shown}, which stays here' in page.body
    begun = page.body.index("<h2>What it can show")
    assert page.body[:begun].rstrip().endswith('<div class="no-print">')
    for found in re.finditer(rf"\b(?:{shown}|{N_ROWS})\b", page.body[:begun]):
        assert re.search("stays here|Site-only", page.body[found.end() :][:200])


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (IdentityError("the certificate of owner a expired"), "certificate was not accepted."),
        (UnreachableError("nobody is there"), "The curator does not answer."),
    ],
)
def test_budgets_are_shown_without_a_curator_or_a_certificate(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch, error: DppcaError, says: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(study_pages, "connect", fail)
    page = browser.get("/")
    assert page.status == 200
    shown = re.sub(r"<[^>]+>", "", page.body)
    assert all(each in shown for each in ("10 left", says, f"{error}."))


@pytest.mark.parametrize("neighbours", ["added", "replaced"])
def test_of_secret_rows_no_curator_sees_when_they_were_read(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch, neighbours: str
) -> None:
    """The page asks again by itself once they are: it has what the curator said before."""
    written = browser.study.model_dump(mode="json", by_alias=True, exclude={"max_rows"})
    written["schema"]["neighbours"] = neighbours
    browser.answer_with(study_from_mapping(written), monkeypatch)
    seen, counted = list[str](), contribute.open_contribution

    @contextmanager
    def noted(*_: object, **__: object) -> Iterator[None]:
        seen.append("call")
        yield
        seen.append("end")

    for module in (consent_pages, preview):
        monkeypatch.setattr(module, "connect", noted)

    def count(*given: Any, **named: Any) -> Any:
        seen.append("rows")
        return counted(*given, **named)

    monkeypatch.setattr(preview, "open_contribution", count)
    assert "What leaves, once" in browser.look(f"/study/{STUDY}/review").body
    before, _, after = " ".join(seen).partition("rows")
    assert before == "call end call end "
    assert bool(after) == (neighbours == "replaced")


def test_of_secret_rows_a_review_that_failed_says_so_without_the_curator(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = browser.study.model_dump(mode="json", by_alias=True, exclude={"max_rows"})
    written["schema"]["neighbours"] = "added"
    study = study_from_mapping(written)
    browser.answer_with(study, monkeypatch)
    monkeypatch.setattr(consent_pages, "kept_study", lambda *_: study)

    def fail(*_: object, **__: object) -> None:
        raise DataError("a row is damaged")

    monkeypatch.setattr(consent_pages, "preview_contribution", fail)
    page = browser.look(f"/study/{STUDY}/review")
    assert page.status == 409
    assert "ended without a result" in page.body
    assert "a row is damaged." in page.body


def test_a_review_says_how_wide_intervals_will_be_and_what_cannot_be_asked(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = browser.study.model_dump(mode="json", by_alias=True)
    number = next(each for each in written["schema"]["attributes"] if each["type"] == "numeric")
    number["missing"] = "indicator"
    study = study_from_mapping(written)
    browser.answer_with(study, monkeypatch)
    page = browser.look(f"/study/{STUDY}/review")
    assert page.status == 200, page.body
    assert "95 % intervals, if values are spread evenly over their bounds" in page.body
    assert "Of " + number["name"] + ": correlation, regression of it; may be missing" in page.body
    for found in ruled_out(study.table):
        of = f"Of {', '.join(found.attributes)}: {', '.join(found.questions)}; "
        assert of in page.body


def test_a_review_that_failed_is_made_again_where_there_are_several_data_sets(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, policy = browser.policy.with_name("rows.csv"), browser.policy.read_text()
    rows.with_name("others.csv").write_bytes(rows.read_bytes())
    line = policy.splitlines()[-1].replace("survey", "other").replace("rows.csv", "others.csv")
    browser.policy.write_text(f"{policy}{line}\n")
    read, original = [], preview.preview_contribution

    def fail_once(site: Site, asked: ContributionOptions, **options: Any) -> Any:
        read.append(asked.data_set_name)
        if len(read) == 1:
            raise DataError("the file cannot be read")
        return original(site, asked, **options)

    monkeypatch.setattr(consent_pages, "preview_contribution", fail_once)
    choice = browser.get(f"/study/{STUDY}/review")
    ended = browser.look(browser.link(choice, "survey"))
    assert ended.headers["location"].endswith(f"/study/{STUDY}")
    choice = browser.get(f"/study/{STUDY}/review?again=1")  # as that page's link says
    shown = browser.look(browser.link(choice, "survey"))
    assert shown.status == 200
    assert "What leaves, once" in shown.body
    assert read == ["survey", "survey"]


def test_a_comparison_that_is_stopped_reads_no_further(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, batches = [], Table.batches

    def stop_at_once(table: Table) -> Iterator[list[Column]]:
        for columns in batches(table, 100):
            read.append(len(columns[0]))
            job = browser.pages.jobs.running()
            assert job is None or job.stop()
            yield columns

    monkeypatch.setattr(Table, "batches", stop_at_once)
    browser.post(f"/study/{STUDY}/compare")
    job = browser.job()
    assert job.stopped
    assert (job.step, job.unit, job.done, job.total > N_ROWS) == ("Reading rows", "rows", 100, True)
    assert read == [100]


@pytest.mark.parametrize(
    ("form", "module", "work"),
    [
        ("open", consent_pages, "open_sum"),
        ("compare", file_pages, "compare_kept"),
        ("consent", consent_pages, "contribute"),
    ],
)
def test_a_form_that_is_sent_twice_begins_its_work_once(
    browser: _Browser, monkeypatch: pytest.MonkeyPatch, form: str, module: ModuleType, work: str
) -> None:
    go, begun = threading.Event(), []

    def wait(*arguments: Any, **options: Any) -> None:
        begun.append((arguments, options))
        go.wait()

    browser.look(f"/study/{STUDY}/review")
    monkeypatch.setattr(module, work, wait)
    for _ in range(2):
        browser.post(f"/study/{STUDY}/{form}")
    go.set()
    assert browser.job().error is None
    assert len(begun) == 1


def test_a_review_stays_where_another_could_not_begin(browser: _Browser) -> None:
    shown = browser.look(f"/study/{STUDY}/review")
    assert "What leaves, once" in shown.body
    go = threading.Event()
    other = browser.pages.jobs.start(Job("other", "Other work"), lambda _: go.wait())
    refused = browser.get(f"/study/{STUDY}/review?again=1")
    assert refused.status == 409
    assert "Other work is under way" in refused.body
    go.set()
    other.wait()
    again = browser.get(f"/study/{STUDY}/review")
    assert (again.status, "What leaves, once" in again.body) == (200, True)


def test_a_review_is_forgotten_when_the_policy_has_changed(browser: _Browser) -> None:
    shown = browser.look(f"/study/{STUDY}/review")
    assert "ε 9 of 10" in shown.body
    assert browser.get(f"/study/{STUDY}/review").status == 200, "the rows are not read again"
    browser.policy.write_text(browser.policy.read_text().replace('"10"', '"0.5"'))
    assert "This cannot be contributed" in browser.look(f"/study/{STUDY}/review").body
