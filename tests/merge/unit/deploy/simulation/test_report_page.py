"""The report of a simulation as one page says what its document says, and needs nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from dppca.common.numerics.comparison import Variation
from dppca.common.numerics.loadings import Loading
from dppca.deploy.simulation.run_report import (
    RepeatedFigure,
    SimulatedRepeats,
    SimulationReport,
    make_page,
)

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def hostile(report: SimulationReport, tmp_path: Path) -> SimulationReport:
    """The report with repeats, with pictures, and with script wherever a name may stand."""
    for name in ("marginals", "scree", "pairs"):
        (tmp_path / f"{name}.png").write_bytes(f"\x89PNG {name}".encode("latin-1"))
    first, *others = report.components.kept
    first = replace(first, loadings=(Loading(HOSTILE, HOSTILE, -0.625),))
    (counts,) = report.coded_by_rule["attributes"].values()
    return replace(
        report,
        target=HOSTILE,
        alarms=[f"owner-1: NOT READ: no value of {HOSTILE} is a number"],
        coded_by_rule={**report.coded_by_rule, "attributes": {HOSTILE: counts}},
        components=replace(report.components, kept=(first, *others)),
        pairs=replace(report.pairs, worst=(Variation((HOSTILE, "b"), 0.7891, 0.0567),)),
        repeats=SimulatedRepeats(5, [1], {"utility.majority": RepeatedFigure(0.7, 0.01)}),
        plots={name: str(tmp_path / f"{name}.png") for name in ("marginals", "scree", "pairs")},
    )


def test_every_figure_of_the_document_is_on_the_page(hostile: SimulationReport) -> None:
    page = unescape(make_page(hostile))
    said = """rand-hie|epsilon 1, delta 0|owner-3|5,384|4,038 held out|0.920|1,234|7.6%|free, the
first|0.4321|0.1543|98.7%|-0.625|0.9800|0.9700|0.9100|0.7400|0.0456|0.789|Over 5 repeats|0.0100|
3.50|3,000|No person has rows at two owners|Relations of 19 of 21 pairs"""
    found = [" ".join(text.split()) for text in [*said.split("|"), hostile.digest]]
    assert [text for text in found if text not in page] == []
    assert page.index("NOT READ: no value of") < page.index("epsilon 1, delta 0")
    assert page.count('src="data:image/png;base64,') == 2  # eigenvalues are drawn by the page
    owners = page[page.index("its own DPPCA-SVM") :]
    beside = owners.index("commonest class would be right on 0.740 of the held-out rows")
    assert owners.index("0.920") < beside < owners.index("</h2>")


def test_the_page_needs_nothing_but_itself_and_runs_nothing(hostile: SimulationReport) -> None:
    page = make_page(hostile)
    assert "<script" not in page
    assert "<link" not in page
    assert not re.search(r"https?:", page)
    assert "default-src &#39;none&#39;" in page


def test_without_a_target_or_repeats_or_faults_it_says_so(report: SimulationReport) -> None:
    owners = tuple(replace(owner, dppca_svm_accuracy=None) for owner in report.owners)
    bare = replace(report, target=None, relations=None, utility=None, plots={}, owners=owners)
    page = make_page(replace(bare, coded_by_rule={**report.coded_by_rule, "attributes": {}}))
    assert "No target was named" in page
    assert "every value of the training rows is coded as it is" in page
    assert "repeats" not in page
    assert "<img" not in page
