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
LOADING = {"attribute": HOSTILE, "label": HOSTILE, "loading": -0.625}


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    for name in ("marginals", "scree", "pairs"):
        (tmp_path / f"{name}.png").write_bytes(f"\x89PNG {name}".encode("latin-1"))
    return {
        "command": "run",
        "study": "survey-2026",
        "digest": "ab" * 32,
        "target": HOSTILE,
        "seed": 7,
        "split": "iid",
        "rows": {"training": 12_345, "held_out": 678},
        "alarms": [f"alpha: NOT READ: no value of {HOSTILE} is a number"],
        "coded_by_rule": {
            "attributes": {
                HOSTILE: {"unknown": 1234, "share": 0.0764, "coded_as": "free, the first label"}
            }
        },
        "privacy": {
            "mechanism": "laplace",
            "relation": "replace-one",
            "max_rows_per_person": 1,
            "entries": 91,
            "federation": {"epsilon": "0.75", "delta": "0"},
            "assumptions": ["No person has rows at two owners"],
        },
        "owners": [
            {
                "name": "alpha",
                "rows": 12_345,
                "epsilon": 0.75,
                "delta": 0.0,
                "dppca_svm_accuracy": 0.921,
            }
        ],
        "components": {
            "count": 1,
            "kept": [{"eigenvalue": 0.4321, "above_noise": True, "loadings": [LOADING]}],
            "eigenvalues": [0.4321, 0.01],
            "noise_edge": 0.0987,
            "above_noise": 1,
            "negative": 0,
            "captured_variance": 0.987,
            "captured_by_chance": 0.412,
        },
        "relations": {"summary": f"Relations of 19 of 21 pairs stand above: {HOSTILE}."},
        "utility": {
            "trtr_accuracy": 0.9811,
            "tstr_accuracy": 0.9722,
            "tstr_accuracy_decoded": 0.9133,
            "majority": 0.7444,
        },
        "pairs": {
            "mean": 0.0456,
            "by_chance": 0.0123,
            "worst": [{"attributes": [HOSTILE, "b"], "found": 0.7891, "by_chance": 0.0567}],
        },
        "repeats": {
            "count": 5,
            "figures": {"utility.majority": {"mean": 0.7, "standard_error": 0.01}},
        },
        "steps": [{"name": "contribute", "seconds": 3.5, "bytes": 3000}],
        "seconds": 12.3,
        "plots": {name: str(tmp_path / f"{name}.png") for name in ("marginals", "scree", "pairs")},
    }


def test_every_figure_of_the_document_is_on_the_page(document: dict[str, Any]) -> None:
    page = unescape(make_page(document))  # type: ignore[arg-type] # what the page uses of one
    said = """survey-2026|epsilon 0.75, delta 0|alpha|12,345|678 held out|0.921|1,234|7.6%|free,
the first label|0.4321|0.0987|98.7%|-0.625|0.9811|0.9722|0.9133|0.7444|0.0456|0.789|Over
5 repeats|0.0100|3.50|3,000|No person has rows at two owners|Relations of 19 of 21 pairs"""
    found = [" ".join(text.split()) for text in [*said.split("|"), "ab" * 32]]
    assert [text for text in found if text not in page] == []
    assert page.index("NOT READ: no value of") < page.index("epsilon 0.75, delta 0")
    assert page.count('src="data:image/png;base64,') == 2  # eigenvalues are drawn by the page


def test_the_commonest_class_stands_beside_the_owners_accuracies(document: dict[str, Any]) -> None:
    page = unescape(make_page(document))  # type: ignore[arg-type] # what the page uses of one
    owners = page[page.index("its own DPPCA-SVM") :]
    said = owners.index("commonest class would be right on 0.744 of the held-out rows")
    assert owners.index("0.921") < said < owners.index("</h2>")


def test_the_page_needs_nothing_but_itself_and_runs_nothing(document: dict[str, Any]) -> None:
    page = make_page(document)  # type: ignore[arg-type] # what the page uses of one
    assert "<script" not in page
    assert "<link" not in page
    assert not re.search(r"https?:", page)
    assert "default-src &#39;none&#39;" in page


def test_without_a_target_or_repeats_or_faults_it_says_so(document: dict[str, Any]) -> None:
    document |= {"target": None, "relations": None, "utility": None, "repeats": None, "plots": {}}
    document["coded_by_rule"] = {"attributes": {}}
    document["owners"][0]["dppca_svm_accuracy"] = None
    page = make_page(json.loads(json.dumps(document)))
    assert "No target was named" in page
    assert "every value of the training rows is coded as it is" in page
    assert "repeats" not in page
    assert "<img" not in page
