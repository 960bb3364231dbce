"""``dppca-owner report``: a page that stays."""

import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dppca.common.analysis.field.missed import Missed
from dppca.owner.cli import cli as owner_cli
from tests.support.commands import run_here
from tests.support.latent_rows import make_rows
from tests.support.sites import N_ROWS, OwnerSite, make_trained_site


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> OwnerSite:
    folder, asked = tmp_path_factory.mktemp("made"), ["share ill=yes", "table ill colour"]
    site = make_trained_site(folder / "site", questions=asked)[0]
    assert site.run("synthesize", "site-test", "--rows", "400")[0] == 0
    return site


@pytest.fixture
def site(made: OwnerSite, tmp_path: Path) -> OwnerSite:
    return made.copied_to(tmp_path / "site")


def _fails(answer: tuple[int, Any], code: int, name: str) -> str:
    assert answer[0] == code, answer
    assert answer[1]["error"]["class"] == name
    message: str = answer[1]["error"]["message"]
    return message


def test_a_report_is_a_page_at_the_site_and_charges_nothing(site: OwnerSite) -> None:
    code, document = site.run("report", "site-test")
    assert code == 0
    quality = document["quality"]
    assert quality["label"] == "site-only"
    assert (quality["n_real"], quality["n_synthetic"]) == (N_ROWS, 400)
    assert [each["target"] for each in quality["accuracies"]] == ["ill", "colour"]
    assert all(each["trained_on_coded"] is not None for each in quality["accuracies"])
    assert len(quality["marginals"]) == 6
    assert len(quality["pairs"]) == 15
    page = Path(document["page"])
    assert page.name == "report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert "SITE-ONLY" in text
    assert "colour: red" in text
    assert "Do not compute standard errors from these rows" in text
    assert document["relations"]["pairs"] == 15
    assert document["relations"]["summary"] in text
    assert text.count('src="data:image/svg+xml;base64,') == 2
    assert site.history.length == 0
    first, table = document["questions"]
    assert first["estimates"][0]["name"] == "ill=yes"
    assert first["family"] == 1 + len(table["estimates"]), "adjusted for all of them together"
    places = [text.index(each) for each in ("The study's questions</h2>", "raw rows.</p>", "pMSE")]
    assert places == sorted(places), "they come first"


def test_another_file_another_target_and_another_page(site: OwnerSite, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    pa.csv.write_csv(make_rows(50, seed=2), other)
    page = tmp_path / "pages" / "mine.html"
    code, document = site.run(
        *("report", "site-test", "--synthetic", str(other), "--target", "colour"),
        *("--output", str(page)),
    )
    assert code == 0
    assert document["quality"]["n_synthetic"] == 50
    assert [(a["target"], a["trained_on_coded"]) for a in document["quality"]["accuracies"]] == [
        ("colour", None)
    ]
    assert page.is_file()


def test_a_report_cannot_be_published(site: OwnerSite) -> None:
    message = _fails(site.run("report", "site-test", "--publish"), 2, "UsageError")
    assert "No such option" in message
    assert not list(site.folder.glob("studies/*/report.html"))


def test_without_synthetic_rows_there_is_nothing_to_report(tmp_path: Path) -> None:
    site = make_trained_site(tmp_path / "site")[0]
    answer = site.run("report", "site-test")
    assert answer[0] != 0
    assert answer[1]["error"]["class"] == "NotReadyError"
    assert "dppca-owner synthesize site-test" in answer[1]["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--target", "x0"),
        ("--target", "ill", "--target", "ill"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_before_anything_is_charged(
    site: OwnerSite, arguments: tuple[str, ...]
) -> None:
    _fails(site.run("report", "site-test", *arguments), 10, "SettingError")
    assert site.history.length == 0


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows that were compared with the release; they are said to miss one relation."""
    seen: list[int] = []

    def find(_schema: Any, _targets: Any, columns: Any, *_: Any, **__: Any) -> tuple[Missed, ...]:
        seen.append(len(columns[0]))
        return (Missed("x0 and x1", 7.25),)

    monkeypatch.setattr("dppca.common.analysis.rows.agreement.find_missed_by", find)
    return seen


def test_what_rows_miss_is_in_the_document_on_the_page_and_in_the_text(
    site: OwnerSite, judged: list[int]
) -> None:
    code, document = site.run("report", "site-test")
    assert (code, judged) == (0, [400])
    assert document["missed"] == [{"relation": "x0 and x1", "deviations": 7.25}]
    said = "Decoded rows miss what the release knows, by so many standard deviations of its noise"
    page = Path(document["page"]).read_text()
    assert said in page
    assert "x0 and x1 (7.2)" in page
    code, text, _ = run_here(owner_cli, "--site", str(site.folder), "report", "site-test")
    assert code == 0
    assert f"warning: {said}: x0 and x1 (7.2)" in text
    places = [
        text.index(each)
        for each in ("with 95 % for all of their", "\nshares of ill=yes: ", "SITE-ONLY")
    ]
    assert places == sorted(places), "answers to the study's questions come first"


def test_rows_that_were_signed_before_are_judged_too(site: OwnerSite, judged: list[int]) -> None:
    code, again = site.run("synthesize", "site-test", "--rows", "400")
    assert (code, again["kept"], judged) == (0, ["coded", "decoded"], [400])
    assert again["missed"] == [{"relation": "x0 and x1", "deviations": 7.25}]
