"""Unit tests mirror the source: who changes a module finds its tests by its name.

Those of `deploy` and `benchmarks`, on which nobody's privacy rests, are in the merge tier.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.checkout import ROOT

UNITS = (ROOT / "tests/push/unit", ROOT / "tests/merge/unit")
OTHERS = {
    "common/papers/test_guarantees.py": "the same promises, for every estimator",
    "common/papers/test_inputs.py": "the same refusals, for every estimator",
    "common/papers/test_sklearn.py": "scikit-learn's own checks, for every estimator",
    "common/privacy/noise/test_sampler_ties.py": "the three private modules of the samplers",
    "owner/release/test_data_set.py": "one function of `contribution`, alone and in each command",
}
"""Tests of no single module, and what they test instead."""


def test_every_unit_test_is_named_for_a_module_or_a_folder_of_the_source() -> None:
    tests = [path.relative_to(unit) for unit in UNITS for path in unit.rglob("test_*.py")]
    assert len(tests) == len(set(tests)) > 150
    assert {str(path) for path in tests if not _has_source(path)} == OTHERS.keys()


def test_units_of_what_privacy_rests_on_are_tried_at_every_push() -> None:
    rooms = [{path.name for path in unit.iterdir() if any(path.rglob("*.py"))} for unit in UNITS]
    assert rooms == [{"common", "curator", "owner"}, {"benchmarks", "deploy"}]


def _has_source(test: Path) -> bool:
    """Whether there is ``NAME.py`` or ``NAME/`` at the place of ``test_NAME.py``, or it is NAME."""
    folder, name = ROOT / test.parent, test.stem.removeprefix("test_")
    return name == folder.name or (folder / f"{name}.py").is_file() or (folder / name).is_dir()
