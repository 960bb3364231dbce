"""Counts of values coded by rule are shown to the steward and come out of a site nowhere else.

A data set has marked numbers of missing, unknown and clipped values. They must stand in what the
commands print for the steward, and nowhere in what leaves or is kept for others: the bytes between
owner and curator, the curator's log, the ledger's entries and receipts, released files.

False alarms: the noise has a seed, so no noised count is a marked one by chance. As text a number
counts after six more bytes of text: three of them stand so in a million random bytes (keys,
signatures, TLS) with 1e6 * 3 * (1/256)^4 * (95/256)^6, below 2e-6. Times that were measured are
left out of the log.
"""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from tests.support.curator import Curator
from tests.support.noise import seed_noise
from tests.support.sites import OwnerSite
from tests.support.wiretap import tapped_site

FALSE_ALARMS = 2e-6
N_ROWS = 9000
UNKNOWN, MISSING, CLIPPED = 2713, 1867, 1423
ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "ill", "type": "binary", "values": ["no", "yes"]},
    {"name": "work", "type": "categorical", "categories": ["private", "state"], "unknown": "?"},
]


def _rows() -> pa.Table:
    rng = np.random.default_rng(4)
    age = rng.uniform(1, 99, N_ROWS).round(2)
    age[:CLIPPED] = 250
    work = rng.choice(["private", "state"], N_ROWS).astype(object)
    work[:UNKNOWN], work[UNKNOWN : UNKNOWN + MISSING] = "farm", ""
    ill = np.where(age > 50, "yes", "no")
    order = rng.permutation(N_ROWS)
    return pa.table({"age": age[order], "ill": ill[order], "work": list(work[order])})


def _found(content: bytes) -> list[int]:
    marks = (UNKNOWN, MISSING, CLIPPED)
    text = rb"[ -~\n]{6}(?<![\w.])%d(?![\w.])"
    as_text = {n: re.search(text % n, content) for n in marks}
    as_number = {n: np.int64(n).astype("<i8").tobytes() in content for n in marks}
    return [n for n in marks if as_text[n] or as_number[n]]


def test_counts_are_shown_to_the_steward_and_never_leave(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_noise(monkeypatch)
    budget = 'epsilon: "5", delta: "0"'
    with tapped_site(curator, tmp_path, name="counting", budget=budget) as (site, tap):
        pa.csv.write_csv(_rows(), site.folder / "rows.csv")
        study = curator.begin(
            "counting",
            name="counted",
            faults={"refuse_if_above": 0.05},
            schema={"max_rows_per_person": 1, "resolution_bits": 6, "attributes": ATTRIBUTES},
        )
        _the_steward_sees_them(site, study.name)
    folder = site.folder / "studies" / study.name
    kept = [path for path in folder.iterdir() if path.name not in {"report.html"}]
    released = [path for path in kept if path.name != "model-ill-linear.skops"]
    assert len(released) > 4
    outside = {path.name: path.read_bytes() for path in released}
    outside["wire"] = b"".join(bytes(each) for each in (*tap.sent, *tap.received))
    outside["curator's log"] = re.sub(rb'"ms": \d+', b"", curator.log.read_bytes())
    outside["ledger"] = _ledger_text(site).encode()
    assert {name: _found(content) for name, content in outside.items() if _found(content)} == {}
    assert not [name for name, content in outside.items() if b"coded_by_rule" in content]


def _the_steward_sees_them(site: OwnerSite, study: str) -> None:
    """Every command that shows counts shows these, marked site-only; none that leaves refuses."""
    steps: list[tuple[int, tuple[str, ...]]] = [
        (28, ("check", study)),
        (28, ("review", study)),
        (0, ("contribute", study, "--yes")),
        (0, ("components", study, "--wait", "300")),
        (0, ("synthesize", study, "--publish")),
        (0, ("train", study, "--target", "ill")),
        (0, ("train", study, "--target", "ill", "--method", "dp-svm", "--epsilon", "1", "--yes")),
        (0, ("report", study)),
    ]
    for expected, arguments in steps:
        code, document = site.run(*arguments)
        assert code == expected, (arguments, document)
        if arguments[0] in {"components", "synthesize"}:
            assert "coded_by_rule" not in document
            continue
        counts = document["coded_by_rule"]
        assert counts["label"] == "site-only"
        assert _found(json.dumps(counts).encode()) == [UNKNOWN, MISSING, CLIPPED], arguments
    page = (site.folder / "studies" / study / "report.html").read_text()
    assert _found(page.replace(",", "").encode()) == [UNKNOWN, MISSING, CLIPPED]


def _ledger_text(site: OwnerSite) -> str:
    """What the ledger says, as text: entries and receipts."""
    said = str(site.history)
    with closing(sqlite3.connect(site.folder / "ledger.sqlite")) as ledger, ledger:
        names = [
            name
            for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        tables = [n for n in names if not n.startswith("sqlite_")]
        rows = [str(row) for name in tables for row in ledger.execute(f'SELECT * FROM "{name}"')]
    ledger.close()
    return "\n".join([said, *rows])
