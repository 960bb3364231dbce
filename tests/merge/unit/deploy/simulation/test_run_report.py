"""The report's keys are a promise; its Markdown, page and story say the same numbers."""

import json
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.comparison import PairSummary, TableErrors, Variation
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.analysis.loadings import Loading
from dppca.common.analysis.rows.synthesis import DecodingMethod
from dppca.common.kernel.documents.tables import fit_markdown
from dppca.common.kernel.documents.values import to_document
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.composition import compose_guarantee
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode
from dppca.common.kernel.study import study_from_mapping
from dppca.common.verification.components import kept_components
from dppca.deploy.simulation.demo import KEY, PLANS, TARGET, demo_study, demo_table
from dppca.deploy.simulation.evaluate import TableUtility, Utility
from dppca.deploy.simulation.experiment import read_columns, with_owners
from dppca.deploy.simulation.redraws import Draw
from dppca.deploy.simulation.run_report import (
    SIMULATION_ONLY,
    RepeatedFigure,
    SimulatedComponents,
    SimulatedPrivacy,
    SimulatedRepeats,
    SimulatedRows,
    SimulationReport,
    list_steps,
    make_markdown,
    make_page,
    summarise_repeats,
)
from dppca.deploy.simulation.runner import SimulatedOwner
from dppca.deploy.simulation.story import MOST_LINES, make_story
from dppca.deploy.simulation.synthesis import OwnerSynthesis, summarise_synthesis
from dppca.owner.records.faults import AttributeReport, CheckReport, FaultKind
from dppca.owner.records.source_facts import FaultCount
from dppca.owner.synthesis.visible_relations import VisibleRelations
from tests.support.documents import require_documented

FOUND = AttributeReport(False, "free, the first", "", {FaultKind.UNKNOWN: FaultCount(1234)})
VECTORS = np.eye(demo_study().table.layout.n_columns)[[3, 1, 0, 2, 4, 5, 6]]


ASKED = Estimates(expected_moments(demo_study(), calibrate(demo_study()), [1565] * 3))
PRIVACY = SimulatedPrivacy(
    mechanism="laplace",
    relation="bounded",
    unit="row",
    max_rows_per_person=1,
    counts="rows",
    n=3 * 5384,
    n_estimated=False,
    entries=135,
    federation=compose_guarantee(demo_study(), calibrate(demo_study())),
)


FIELD = OwnerSynthesis(5384, DecodingMethod.FIELD, 0.91)
LACKING = OwnerSynthesis(5384, DecodingMethod.NOT_CONVERGED, 4.25)
SYNTHESIS = summarise_synthesis({"owner-1": FIELD, "owner-2": LACKING, "owner-3": FIELD})


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> SimulationReport:
    monkeypatch.setattr("dppca.common.verification.components.find_mixtures", lambda _: ((),) * 7)
    owners = tuple(
        SimulatedOwner(
            name=f"owner-{number}",
            rows=5384,
            epsilon=1.0,
            delta=0.0,
            charged=PrivacyCost(Decimal("0.9999"), Decimal(0)),
            dppca_svm_accuracy=0.9 + number / 100,
            seconds={
                "contribute": 0.5 + number,
                **({"open": 0.25} if number > 1 else {}),
                "train": 1.0,
            },
            bytes={"contribute": 1000, **({"open": 64} if number > 1 else {}), "train": 0},
        )
        for number in (1, 2, 3)
    )
    eigenvalues = np.array([0.4321, 0.2, 0.1, -0.05])
    result: Any = SimpleNamespace(
        vectors=VECTORS, eigenvalues=eigenvalues, header=SimpleNamespace(noise_edge=0.1543)
    )
    return SimulationReport(
        command="demo",
        study="rand-hie",
        stated=demo_study().stated,
        digest=demo_study().digest,
        target=TARGET,
        seed=1,
        split="iid",
        test=None,
        rows=SimulatedRows(16152, 4038),
        alarms=["owner-1: NOT READ: no value of <age> is a number"],
        coded_by_rule=CheckReport(16152, 0, {"lncoins": FOUND}, {}, ()),
        privacy=PRIVACY,
        owners=owners,
        components=SimulatedComponents(
            count=7,
            kept=kept_components(result, demo_study()),
            eigenvalues=eigenvalues.tolist(),
            noise_edge=0.1543,
            above_noise=2,
            negative=1,
            captured_variance=0.987,
            captured_by_chance=0.412,
        ),
        relations=VisibleRelations(
            21, 19, (), "Relations of 19 of 21 pairs of attributes stand above the noise: <b>."
        ),
        synthesis=SYNTHESIS,
        utility=Utility(0.98, 0.97, 0.91, 0.74, 0.99, 0.96, "Trained on a sample."),
        tables=TableUtility(TableErrors(0.01, 0.02, 0.03, 0.07), None, "Tables are off."),
        pairs=PairSummary(0.0456, 0.0123, (Variation(("lpi", "fmde"), 0.7891, 0.0567),)),
        steps=list_steps(owners),
        files={"report": "out/report.md"},
        plots={"scree": "out/scree.svg"},
        seconds=12.346,
    )


@pytest.fixture
def document(report: SimulationReport) -> Any:
    """The report as JSON, for a test to change: a template shows one as it shows the other."""
    return to_document(report)


def test_answers_to_the_study_come_before_all_else(report: SimulationReport) -> None:
    own = replace(ASKED.mean("mdvis").document(), title="mean of <mdvis>")
    shown = replace(report, questions=(own,))
    for text in (make_markdown(shown), make_page(shown)):
        places = [text.index(each) for each in ("The study's questions", "Utility †", "Components")]
        assert places == sorted(places)
        assert "ean of &lt;mdvis" in text
    (found,) = own.estimates
    assert f"| `mdvis` | {found.estimate:.4g} | {found.low:.4g} | {found.high:.4g} |  |" in (
        make_markdown(shown)
    )
    assert "study's questions" not in make_markdown(report) + make_page(report)


def test_values_that_are_not_whole_have_a_column_where_there_are_some(
    report: SimulationReport,
) -> None:
    found = AttributeReport(False, "4", "a number", {FaultKind.NOT_WHOLE: FaultCount(5)})
    shown = replace(report, coded_by_rule=CheckReport(100, 0, {"visits": found}, {}, ()))
    text = make_markdown(shown)
    assert "| out-of-bounds | not-whole | of the rows |" in text
    assert "| `visits` | 0 | 0 | 0 | 0 | 0 | 5 | 5.00% |" in text
    assert "where values are whole, as the nearest whole number." in text
    assert "not-whole" not in make_markdown(report)
    assert "the nearest bound or whole number" in make_page(shown)


SCHEMA = demo_study().table
DRAWS = [
    Draw(
        Utility(0.98, coded, decoded, 0.74, 0.99, decoded),
        {f"owner-{n}": home + n / 100 for n in (1, 2, 3)},
    )
    for coded, decoded, home in [(0.88, 0.95, 0.7), (0.9, 0.93, 0.92)]
]


def test_the_report_says_what_the_document_says_and_first_what_an_owner_would_be_told(
    report: SimulationReport, document: Any
) -> None:
    text = make_markdown(report)
    assert text.split("\n\n")[1] == "**owner-1: NOT READ: no value of &lt;age> is a number.** †"
    privacy = document["privacy"]
    assert privacy["federation"]["epsilon"] == f"{report.owners[0].epsilon:g}"
    assert [each for each in privacy["federation"]["assumptions"] if each not in text] == []
    for said in (
        "Utility †",
        "noise: &lt;b>.",
        "16,152 in each form. **The field of the decoded synthetic rows did not converge at own",
        f"| 2 | 0.2 | yes | +1.00 `{SCHEMA.column_names[1]}",
        "commonest class would be right on 0.740 of the held-out rows †",
        "| owner-2 | 5,384 | 1 | 0 | 0.920 |",
        "| synthetic rows, coded | 0.9700 |  |",
        "| synthetic rows, decoded | 0.9100 | 0.9600 |",
        "\n\nTrained on a sample.\n",
        "\nTables are off.\n",
        "| `lncoins` | 0 | 1,234 | 0 | 0 | 0 | 7.64% |",
        "0.0456 on average, where chance alone would give 0.0123",
        "| `lpi`, `fmde` | 0.789 | 0.057 |",
    ):
        assert said in text
    found = {"out-of-bounds": {"count": 2}, "missing": {"count": 3}}
    beyond = {"found": found, "by_rule": 5, "faults": 2, "coded_as": "the middle"}
    document["coded_by_rule"] = {"rows": 50, "attributes": {"cost": beyond}}
    assert "other values as: `cost`: the middle." in make_markdown(document)


def test_the_answer_comes_first_then_how_then_conditions(report: SimulationReport) -> None:
    text, page, story = (
        make_markdown(report),
        unescape(make_page(report)),
        make_story(_of_the_demo(report), DRAWS, ASKED),
    )
    answer = "is right on 91.0 % of held-out real rows. Trained on real rows, it is right on 98.0 %"
    assert answer in text
    assert answer in page
    for shown, places in (
        (text, (answer, "## Utility", "## Components", "## What each owner gave", report.digest)),
        (page, (answer, "<h2>Utility", "<h2>Components", "What each owner gave", report.digest)),
        (story, ("WHAT WAS FOUND", "WHAT IT IS GOOD FOR", "WHAT IT COST", "THE REST")),
    ):
        found = [shown.index(each) for each in places]
        assert found == sorted(found)


def test_the_report_has_the_keys_that_were_promised(document: Any) -> None:
    assert set(document["owners"][0]) >= {"name", "rows", "epsilon", "delta"}
    assert set(document["components"]) >= {
        "count",
        "eigenvalues",
        "captured_variance",
        "noise_edge",
    }
    assert set(document["utility"]) == {
        "trtr_accuracy",
        "tstr_accuracy",
        "tstr_accuracy_decoded",
        "majority",
        "trtr_trees",
        "tstr_trees",
        "sampled",
        "judged",
        "verdict",
    }
    assert document["synthesis"] == {
        "rows": 16_152,
        "decoded_by": "thresholds: the field did not converge",
        "not_converged": ["owner-2"],
        "misfit": 4.25,
        "missed": [],
        "summary": SYNTHESIS.summary,
    }
    assert document["components"]["above_noise"] == 2
    assert document["components"]["negative"] == 1
    assert document["steps"] == [
        {"name": "contribute", "seconds": 3.5, "bytes": 3000},
        {"name": "open", "seconds": 0.25, "bytes": 128},
        {"name": "train", "seconds": 1.0, "bytes": 0},
    ]
    assert document["simulation_only"] == list(SIMULATION_ONLY)
    plain = json.loads(json.dumps(document, allow_nan=False))
    assert require_documented("dppca-simulate", plain) == document


def test_the_story_is_twelve_lines_about_people_and_gives_the_range_of_all_draws(
    report: SimulationReport,
) -> None:
    lines = make_story(_of_the_demo(report), DRAWS, ASKED).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 88
    story = " ".join(" ".join(lines).split())
    assert story.startswith(
        "4,695 people of 3 owners: noise in the sums hides each, and nobody was shown a row."
    )
    assert "(idp) in 91.0% to 95.0% of other real rows (3 draws of noise)" in story
    assert "from real rows, in 98.0%; the commonest answer, in 74.0%." in story
    assert "had all years of any one person been different, no result would be more than" in story
    assert "Epsilon 1, delta 0.000001" in story
    assert "2.7 times as likely" in story
    assert "out/report.html has all of it" in story
    assert lines[-1] == "dppca-owner estimate out/components.npz mean mdvis --ca out/ca.pem"
    (visits, low, high) = map(
        float,
        re.findall(r"physician (\S+) times a year \(95 % interval: (\S+) to (\S+)\)", story)[0],
    )
    assert low < visits < high
    assert "call their health good (" in story


@pytest.mark.parametrize("n_rows", [20, 60])
def test_an_answer_that_is_nothing_but_noise_is_not_told(
    report: SimulationReport, n_rows: int
) -> None:
    hidden = Estimates(expected_moments(demo_study(), calibrate(demo_study()), [n_rows] * 3))
    (low, high) = hidden.mean("mdvis").conf_int()[0]
    assert not high - low < 26, "else this test shows nothing"
    poor = replace(DRAWS[0], utility=replace(DRAWS[0].utility, tstr_accuracy_decoded=0.74))
    shown = replace(_of_the_demo(report), components=replace(report.components, above_noise=0))
    story = " ".join(make_story(shown, [*DRAWS, poor], hidden).split())
    assert "physician" not in story
    assert "of other real rows" not in story
    assert "No better than always giving one answer" in story
    assert "No pattern in how they differ exceeds the noise" in story


def _of_the_demo(report: SimulationReport) -> SimulationReport:
    """The report as the demo's command makes it."""
    assert report.utility is not None
    verdict = "No better than always giving one answer."
    return replace(
        report,
        privacy=replace(report.privacy, unit="person", counts="people", n=4695),
        utility=replace(report.utility, verdict=verdict),
        files={"page": "out/report.html"},
        answers=("dppca-owner estimate out/components.npz mean mdvis --ca out/ca.pem",),
    )


def test_the_demo_knows_every_row_of_its_data() -> None:
    study, table = demo_study(), demo_table()
    assert table.num_rows == 20_190
    assert set(table["lncoins"].to_pylist()) == set(PLANS.values())
    names = [attribute.name for attribute in study.table.attributes]
    assert table.column_names == [*names, KEY]
    rows = encode(study.table, read_columns(study.table, table))
    # Nothing is an unknown label that coding would have had to mend: plans as they are counted.
    start, stop = study.table.layout.groups[1]
    counts = dict(zip(PLANS.values(), rows[:, start:stop].sum(axis=0) // 1024, strict=True))
    assert counts == {"free": 10_997, "25%": 4065, "50%": 1401, "95%": 2653, "100%": 1074}


def test_the_demo_is_of_people_with_at_most_five_years_who_answered_alike_in_each() -> None:
    rows = demo_table().to_pylist()
    years = Counter(row[KEY] for row in rows)
    assert [row[KEY] for row in rows] == sorted(row[KEY] for row in rows)
    assert Counter(years.values()) == {1: 223, 2: 234, 3: 3743, 4: 65, 5: 1602}
    of_each = {(row[KEY], *(row[name] for name in row if name != "mdvis")) for row in rows}
    assert len(of_each) == len(years) == 5867


def test_owners_are_renamed_and_everything_else_is_kept_where_it_still_fits() -> None:
    study = demo_study()
    renamed = with_owners(study, 5)
    assert renamed.owners == tuple(f"owner-{number}" for number in range(1, 6))
    assert renamed.model_copy(update={"owners": study.owners}) == study
    with pytest.raises(SettingError, match="at least one owner"):
        with_owners(study, 0)
    document = study.model_dump(mode="json", by_alias=True, exclude_none=True)
    with pytest.raises(StudyError, match="quorum 3 is above"):
        with_owners(study_from_mapping({**document, "quorum": 3}), 2)


@pytest.mark.parametrize("name", ["age | sex", "cost\\", "a\\|b"])
def test_an_attribute_may_have_a_name_that_ends_a_cell_of_a_table(document: Any, name: str) -> None:
    beyond = {"found": {"out-of-bounds": {"count": 2}}, "by_rule": 2, "faults": 2}
    document["coded_by_rule"] = {"rows": 20, "attributes": {name: {**beyond, "coded_as": "50"}}}
    document["pairs"]["worst"][0]["attributes"] = (name, "fmde")
    shown = fit_markdown(make_markdown(document), width=200)
    assert f"\n`{name}`  " in shown
    assert f"\n`{name}`, `fmde`  " in shown


def _repeated(
    report: SimulationReport, seed: int, accuracy: float | None, captured: float
) -> SimulationReport:
    return replace(
        report,
        seed=seed,
        components=replace(report.components, captured_variance=captured),
        utility=None if accuracy is None else Utility(*[accuracy] * 6),
        owners=(replace(report.owners[0], name="clinic", dppca_svm_accuracy=accuracy),),
    )


def test_the_standard_error_is_that_of_the_mean(report: SimulationReport) -> None:
    runs = [(1, 0.7, 0.9), (2, 0.8, 0.8), (3, 0.9, 1.0)]
    found = summarise_repeats([_repeated(report, *run) for run in runs])
    assert (found.count, found.seeds) == (3, [1, 2, 3])
    figures = found.figures
    assert figures["utility.tstr_accuracy"].mean == pytest.approx(0.8)
    assert figures["utility.tstr_accuracy"].standard_error == pytest.approx(0.1 / 3**0.5)
    assert figures["clinic.dppca_svm_accuracy"].mean == pytest.approx(0.8)
    assert figures["synthesis.not_converged"].mean == 1
    assert figures["pairs.mean"].standard_error == pytest.approx(0)


@pytest.mark.parametrize(
    ("drawn", "said", "bold"),
    [
        ({"a": FIELD, "b": FIELD}, "converged (misfit 0.91; chance alone would give 1).", False),
        ({"a": LACKING}, "did not converge (misfit 4.25", True),
        ({"a": FIELD, "b": LACKING}, "did not converge at b (misfit 4.25", True),
        ({"a": OwnerSynthesis(5, DecodingMethod.THRESHOLDS, None)}, "this has no field", False),
    ],
)
def test_the_field_that_did_not_converge_is_named_and_stands_out(
    report: SimulationReport, drawn: dict[str, OwnerSynthesis], said: str, *, bold: bool
) -> None:
    shown = replace(report, synthesis=summarise_synthesis(drawn))
    text, page = make_markdown(shown), unescape(make_page(shown))
    assert said in text
    assert said in page
    (line,) = [line for line in text.splitlines() if said in line]
    assert line.endswith("**") is bold
    assert f'class="warn">{shown.synthesis.rows:,} in each form' in page or not bold


def test_a_test_table_is_named_where_rows_would_be_held_out(report: SimulationReport) -> None:
    shown = replace(report, test="tried|<on>.csv")
    assert "3 owners, 4,038 in the test table `tried\\|<on>.csv` †. 12.3 s." in make_markdown(shown)
    assert "3 owners, 4,038 in the test table tried|&lt;on&gt;.csv." in make_page(shown)


HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def hostile(report: SimulationReport, tmp_path: Path) -> SimulationReport:
    """The report with repeats, with pictures, and with script wherever a name may stand."""
    for name in ("marginals", "scree", "pairs"):
        (tmp_path / f"{name}.svg").write_text(f"<svg>{name}</svg>")
    first, *others = report.components.kept
    first = replace(first, loadings=(Loading(HOSTILE, HOSTILE, -0.625),))
    (counts,) = report.coded_by_rule.attributes.values()
    return replace(
        report,
        target=HOSTILE,
        alarms=[f"owner-1: NOT READ: no value of {HOSTILE} is a number"],
        coded_by_rule=replace(report.coded_by_rule, attributes={HOSTILE: counts}),
        components=replace(report.components, kept=(first, *others)),
        pairs=replace(report.pairs, worst=(Variation((HOSTILE, "b"), 0.7891, 0.0567),)),
        repeats=SimulatedRepeats(5, [1], {"utility.majority": RepeatedFigure(0.7, 0.01)}),
        plots={name: str(tmp_path / f"{name}.svg") for name in ("marginals", "scree", "pairs")},
    )


def test_every_figure_of_the_document_is_on_the_page(hostile: SimulationReport) -> None:
    page = unescape(make_page(hostile))
    said = """rand-hie|epsilon 1, delta 0|owner-3|5,384|4,038 held out|0.920|1,234|7.6%|free, the
first|0.4321|0.1543|98.7%|-0.625|0.9800|0.9700|0.9100|0.7400|0.0456|0.789|
16,152 in each form. The field|did not converge at owner-2 (misfit 4.25|Over 5 repeats|0.0100|
3.50|3,000|No person has rows at two owners|Relations of 19 of 21 pairs"""
    found = [" ".join(text.split()) for text in [*said.split("|"), hostile.digest]]
    assert [text for text in found if text not in page] == []
    assert page.index("NOT READ: no value of") < page.index("epsilon 1, delta 0")
    assert page.count('src="data:image/svg+xml;base64,') == 2  # eigenvalues are drawn by the page
    owners = page[page.index("its own DPPCA-SVM") :]
    beside = owners.index("commonest class would be right on 0.740 of the held-out rows")
    assert owners.index("0.920") < beside < owners.index("</h2>")


def test_the_page_needs_nothing_but_itself_and_runs_nothing(hostile: SimulationReport) -> None:
    page = make_page(hostile)
    assert "<script" not in page
    assert "<link" not in page
    assert not re.search(r"https?:", page)
    assert "default-src &#39;none&#39;" in page


def test_that_nothing_was_found_is_the_first_answer(document: Any) -> None:
    assert "Nothing was found" not in make_markdown(document)
    document["components"]["noise_edge"] = 0.5
    answer = make_markdown(document).split("**. †")[0].partition("\n- ")[2]
    assert answer.startswith("Nothing was found: all 4 components may be noise. ε 1 is spent.")


def test_a_secret_number_of_people_is_told_as_an_estimate(report: SimulationReport) -> None:
    owners = tuple(replace(owner, rows=None) for owner in report.owners)
    privacy = replace(
        report.privacy,
        unit="person",
        max_rows_per_person=None,
        counts="people",
        n=5020,
        n_estimated=True,
    )
    secret = replace(report, owners=owners, privacy=privacy)
    for text in (make_markdown(secret), make_page(secret)):
        assert "unit: person, with any number of rows. From about 5,020 people." in text
        assert "secret" in text
    assert "| owner | people | " in make_markdown(secret)
    document = to_document(secret)
    assert {owner["rows"] for owner in document["owners"]} == {None}
    assert (document["privacy"]["n"], document["privacy"]["n_estimated"]) == (5020, True)
    assert "From 16,152 rows." in make_markdown(report)
