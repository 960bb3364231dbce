"""What is in the wheel: the product, and nothing that only the repository needs."""

from __future__ import annotations

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
OURS_ALONE = {"tools", "tests", "benchmarks", "docs", "faults", "fault_injection", "fuzz"}


def test_the_wheel_holds_one_package_and_nothing_that_only_the_repository_needs() -> None:
    files = [
        Path(file.distribution_path) for file in WheelBuilder(str(ROOT)).recurse_included_files()
    ]
    assert len(files) > 100
    assert {path.parts[0] for path in files} == {"dppca"}, "an installed DPPCA occupies one name"
    assert [str(path) for path in files if OURS_ALONE & {*path.parts}] == []
