"""Every benchmark at tiny size: that it works and says what it ran on, never how fast it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.performance.registry import BENCHMARKS
from tests.support.benchmarks import run_quickly


@pytest.mark.parametrize("name", sorted({*BENCHMARKS} - {"spark"}))  # it is in tests/night/spark
def test_a_benchmark_gives_figures_and_the_machine(
    name: str, tmp_path: Path, data_folder: Path
) -> None:
    run_quickly(name, tmp_path)
