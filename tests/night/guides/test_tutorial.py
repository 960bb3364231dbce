"""The tutorial for researchers runs as it is printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT


def test_three_methods_are_compared_on_a_csv_file(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "docs/tutorial/compare_methods.py"]
    made_up = ["--rows", "600", "--runs", "2", "--output", str(tmp_path)]
    done = subprocess.run(
        [*command, *made_up], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "600 rows, 6 attributes" in done.stdout
    assert "DP-SVM, sound" in done.stdout  # the guarantee
    *_, last = [line for line in done.stdout.splitlines() if line.strip().startswith("no privacy")]
    assert 0.6 < float(last.split()[-1]) <= 1
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    again = [*command, "--data", str(tmp_path / "clinic.csv"), "--runs", "1"]
    done = subprocess.run(
        [*again, "--output", str(tmp_path / "again")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "again" / "clinic.csv").exists()
