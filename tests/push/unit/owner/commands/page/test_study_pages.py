"""Estimates on a site's page: asked by an address, with a table and a file of the same numbers."""

import csv
import html
import io
import zipfile
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest

from dppca import write_dossier
from dppca.common.analysis.estimates.face import estimates
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.attestation.verify import read_authority
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.pages.guard import COOKIE
from dppca.common.shell.charts import draw_forest
from dppca.common.verification.estimate_form import PageQuestion, csv_text, form_values
from dppca.common.verification.estimation import read_published
from dppca.owner.commands.page.routes import StewardApp
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import components_path
from tests.support.asgi import Answer, ask
from tests.support.pooling import pooled_result
from tests.support.sites import make_trained_site
from tests.support.studies import binary_of, make_study, numeric_of
from tools.markdown import ROOT


class _Asker:
    def __init__(self, folder: Path) -> None:
        site, self.study = make_trained_site(folder, epsilon="100")
        self.folder = site.folder
        at = load_site(site.folder)
        self.asked = estimates(Published(self.study, kept_result(at, self.study)[0]))
        self._pages = StewardApp(at)
        self._app = self._pages.application()

    def get(self, *, file: str = "estimates", **asked: str | list[str]) -> Answer:
        session, query = self._pages.session, urlencode(asked, doseq=True)
        target = f"{session.place}/study/{self.study.name}/{file}?{query}"
        return ask(self._app, target, cookie=f"{COOKIE}={session.cookie}")


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> _Asker:
    return _Asker(tmp_path_factory.mktemp("asker") / "site")


def test_the_form_has_every_attribute_and_each_label_of_a_categorical(asker: _Asker) -> None:
    page = asker.get()
    assert page.status == 200
    for each in ("x0", "ill", "colour", "colour=red"):
        assert f"<option>{each}</option>" in page.body
    assert page.body.count('type="checkbox"') == len(asker.study.table.attributes)
    assert "<script" not in page.body.split("<main")[1]


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ({"ask": "mean", "y": "x0"}, "Mean of x0"),
        ({"ask": "mean", "y": "x0", "x": "colour"}, "X0 by colour"),
        ({"ask": "mean", "y": "colour"}, "Shares of colour"),
        ({"ask": "mean", "y": "colour", "x": "ill"}, "Table of colour and ill"),
        ({"ask": "table", "y": "colour", "x": "ill"}, "Independence of colour and ill"),
        ({"ask": "correlation", "y": "x0", "x": ["x1", "x2"]}, "Correlation"),
        ({"ask": "ols", "y": "x0", "x": ["x0", "ill", "colour"]}, "Regression of x0"),
        ({"ask": "logit", "y": "ill", "x": "colour"}, "Adjusted odds ratios of ill=yes"),
        (
            {"ask": "marginal-effects", "y": "ill", "x": "colour"},
            "Adjusted differences of the share of ill=yes (average marginal effects)",
        ),
    ],
)
def test_each_question_has_a_forest_plot_and_a_table(
    asker: _Asker, question: dict[str, str | list[str]], title: str
) -> None:
    page = asker.get(**question)
    assert (page.status, page.body.count('role="alert"')) == (200, 0)
    assert f"<h2>{title}, " in page.body
    assert '<svg class="chart"' in page.body
    assert "The same as a table" in page.body


def test_table_1_is_a_table_without_a_plot_of_unlike_numbers(asker: _Asker) -> None:
    page = asker.get(ask="summary", y="x0", x="ill")
    assert "<h2>Table 1 by ill, " in page.body
    assert '<svg class="chart"' not in page.body
    assert '<details class="filed" open>' in page.body


def test_survival_on_the_page_is_until_what_is_chosen_by_the_number_that_is_ticked() -> None:
    study = make_study(
        [numeric_of("month", 0, 4, integer=True), binary_of("died", ["no", "yes"])],
        epsilon="50",
        tables=[{"table": ["month", "died"], "cells": {"month": 4}}],
    )
    rng = np.random.default_rng(5)
    sums = accumulate_moments(
        study.table, [rng.integers(0, 5, 900).astype(float), rng.integers(0, 2, 900, np.int32)]
    )
    published = Published(study, pooled_result(study, [sums], seed=5))
    (answer,) = PageQuestion("survival", "died", ["month"]).answers(published)
    assert answer.title == "survival by month to died=yes"
    with pytest.raises(SettingError, match="tick one number, the time until the event"):
        PageQuestion("survival", "month", ["died"]).answers(published)


def test_an_address_that_asks_nothing_answers_the_study_first() -> None:
    attributes = [numeric_of("age", 0, 100), binary_of("ill", ["no", "yes"])]
    rng = np.random.default_rng(5)
    columns = [rng.uniform(0, 100, 900), rng.integers(0, 2, 900, np.int32)]
    shown = {}
    for own in (None, ["share ill=yes", "mean age"]):
        study = make_study(attributes, epsilon="50", **({"questions": own} if own else {}))
        sums = accumulate_moments(study.table, columns)
        published = Published(study, pooled_result(study, [sums], seed=5))
        shown[bool(own)] = form_values(published, PageQuestion.read([]))
    assert shown[False]["answers"] == []
    assert [each["title"] for each in shown[True]["answers"]] == [
        "shares of ill=yes",
        "mean of age",
    ]
    assert shown[True]["of_study"]
    assert {each["family"] for each in shown[True]["answers"]} == {2}
    assert not form_values(published, PageQuestion("mean", "age", []))["of_study"]
    file = csv_text(published, PageQuestion.read([]))
    assert [line.partition(",")[0] for line in file.splitlines()[1:]] == [
        "shares of ill=yes",
        "mean of age",
    ]


def test_quartiles_of_counted_cells_are_drawn_without_a_point_for_a_whole_cell() -> None:
    edition = ROOT / "tests/golden/editions/0.1.0-owner/site/studies/edition"
    published = read_published(edition / "components.npz", KnownParties(None), first=None)
    question = PageQuestion("median", "age", [])
    shown = form_values(published, question)["answers"][0]["estimates"]
    assert [each["name"] for each in shown][1] == "median of age"
    assert all(each["low"] <= each["high"] for each in shown)
    drawn = draw_forest([(e["name"], None, e["low"], e["high"]) for e in shown])
    assert "<circle" not in drawn
    assert "median of age: from" in drawn
    assert "quantiles of age,quantile 0.75 of age,,," in csv_text(published, question)


def test_the_file_has_the_numbers_of_the_answer(asker: _Asker) -> None:
    answer = asker.asked.ols("x0", ["x1", "ill"])
    file = asker.get(file="estimates.csv", ask="ols", y="x0", x=["x1", "ill"])
    assert file.headers["content-disposition"] == 'attachment; filename="estimates-site-test.csv"'
    rows = list(csv.DictReader(io.StringIO(file.body)))
    assert [row["name"] for row in rows] == list(answer.names)
    for name, expected in (("estimate", answer.params), ("low", answer.conf_int()[:, 0])):
        np.testing.assert_allclose([float(row[name]) for row in rows], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ({"ask": "ols", "y": "colour", "x": "x0"}, "colour is not a number"),
        ({"ask": "median", "y": "x0"}, "counted no cells of x0"),
        ({"ask": "ols", "y": "x0"}, "tick what it is beside"),
        ({"ask": "table", "y": "x0", "x": "no such"}, "no attribute or label no such"),
        ({"ask": "any", "y": "<script>"}, "no attribute or label <script>"),
    ],
)
def test_a_question_without_an_answer_is_told_on_the_page(
    asker: _Asker, question: dict[str, str | list[str]], says: str
) -> None:
    page = asker.get(**question)
    assert page.status == 200
    assert says in html.unescape(page.body.split('role="alert">')[1])
    assert "<script>" not in page.body.split("<main")[1]
    assert asker.get(file="estimates.csv", **question).status != 200


def test_a_dossier_asks_first_and_is_then_what_the_command_writes(
    asker: _Asker, tmp_path: Path
) -> None:
    answers, name = asker.folder / "dossier.yaml", asker.study.name
    asked = asker.get(file="dossier")
    assert asked.status != 200
    for needed in (str(answers), "Who answered these questions?", "On which day"):
        assert needed in html.unescape(asked.body)
    given = [
        "curators: [Hospital]",
        "authors: [A]",
        "region: here",
        "purpose:",
        f"  {name}: to try",
    ]
    answers.write_text("\n".join([*given, "published:", f"  {name}: 2026-11-30", ""]))
    got = asker.get(file="dossier")
    assert (got.status, got.headers["content-type"]) == (200, "application/zip")
    assert got.headers["content-disposition"] == f'attachment; filename="dossier-{name}.zip"'
    at = load_site(asker.folder)
    ca = read_authority(at.ca)
    assert ca is not None
    written = write_dossier(components_path(at, name), tmp_path / "out", ca=ca, answers=answers)
    with zipfile.ZipFile(io.BytesIO(got.content)) as archive:
        assert archive.namelist() == [path.name for path in written]
        for path in written:
            assert archive.read(path.name) == path.read_bytes()
