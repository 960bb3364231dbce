"""The report of a simulation as one page says what its document says, and needs nothing else."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from dppca.deploy.simulation.report_page import make_page

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def hostile(document: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """The document with repeats, with pictures, and with script wherever a name may stand."""
    for name in ("marginals", "scree", "pairs"):
        (tmp_path / f"{name}.png").write_bytes(f"\x89PNG {name}".encode("latin-1"))
    loading = {"attribute": HOSTILE, "label": HOSTILE, "loading": -0.625}
    document["components"]["kept"][0]["loadings"][0] = loading
    document["pairs"]["worst"][0]["attributes"] = [HOSTILE, "b"]
    document["coded_by_rule"]["attributes"][HOSTILE] = document["coded_by_rule"]["attributes"].pop(
        "lncoins"
    )
    return document | {
        "target": HOSTILE,
        "alarms": [f"owner-1: NOT READ: no value of {HOSTILE} is a number"],
        "repeats": {
            "count": 5,
            "figures": {"utility.majority": {"mean": 0.7, "standard_error": 0.01}},
        },
        "plots": {name: str(tmp_path / f"{name}.png") for name in ("marginals", "scree", "pairs")},
    }


def test_every_figure_of_the_document_is_on_the_page(hostile: dict[str, Any]) -> None:
    page = unescape(make_page(hostile))  # type: ignore[arg-type] # what the page uses of one
    said = """rand-hie|epsilon 1, delta 0|owner-3|5,384|4,038 held out|0.920|1,234|7.6%|free, the
first|0.4321|0.1543|98.7%|-0.625|0.9800|0.9700|0.9100|0.7400|0.0456|0.789|Over 5 repeats|0.0100|
3.50|3,000|No person has rows at two owners|Relations of 19 of 21 pairs"""
    found = [" ".join(text.split()) for text in [*said.split("|"), hostile["digest"]]]
    assert [text for text in found if text not in page] == []
    assert page.index("NOT READ: no value of") < page.index("epsilon 1, delta 0")
    assert page.count('src="data:image/png;base64,') == 2  # eigenvalues are drawn by the page
    owners = page[page.index("its own DPPCA-SVM") :]
    beside = owners.index("commonest class would be right on 0.740 of the held-out rows")
    assert owners.index("0.920") < beside < owners.index("</h2>")


def test_the_page_needs_nothing_but_itself_and_runs_nothing(hostile: dict[str, Any]) -> None:
    page = make_page(hostile)  # type: ignore[arg-type] # what the page uses of one
    assert "<script" not in page
    assert "<link" not in page
    assert not re.search(r"https?:", page)
    assert "default-src &#39;none&#39;" in page


def test_without_a_target_or_repeats_or_faults_it_says_so(document: dict[str, Any]) -> None:
    document |= {"target": None, "relations": None, "utility": None, "repeats": None, "plots": {}}
    document["coded_by_rule"] = {"attributes": {}}
    for owner in document["owners"]:
        owner["dppca_svm_accuracy"] = None
    page = make_page(json.loads(json.dumps(document)))
    assert "No target was named" in page
    assert "every value of the training rows is coded as it is" in page
    assert "repeats" not in page
    assert "<img" not in page
