"""The computed figures of the sizing page are those that follow from the measured ones."""

import json
import re

import pytest

from tests.support.checkout import ROOT


def test_the_table_follows_from_the_measured_rate() -> None:
    section = json.loads((ROOT / "docs/evidence/performance.json").read_text())["files"]
    measured = section["tables"][0]
    (row,) = (r for r in measured["rows"] if r[:3] == ["parquet", "all digits", 200])
    cells_per_s = row[measured["columns"].index("DPPCA")] * 1e6 / 2  # of each of two threads
    page = (ROOT / "docs/explanation/sizing.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) h \| ([\d.]+) GB/s \|$", page, re.MULTILINE)
    assert [int(threads) for threads, _, _ in rows] == [1, 8, 32, 128]
    for threads, hours, gigabytes in rows:
        rate = int(threads) * cells_per_s
        assert float(hours) == pytest.approx(200e9 / rate / 3600, rel=0.1)
        assert float(gigabytes) == pytest.approx(rate * 8 / 1e9, rel=0.1)
