"""Tests are in three tiers by folder, unit tests mirror the source, and CI runs what is touched.

Who changes a module finds its tests by its name. Unit tests of `deploy`, `benchmarks` and
`common/papers`, on which no site's release rests, are in the merge tier.
"""

import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tools.night import SUITES, TOUCHES, touched_suites
from tools.night_record import imported_names
from tools.syntax import nodes

TIERS = ("push", "merge", "night")
BEYOND_PYTHON = {
    *("adbc_driver_postgresql", "axe_playwright_python", "distributed", "playwright", "pyspark"),
    *(f"tests.support.{name}" for name in ("browser", "containers", "fixtures", "postgres")),
}
"""What a test imports that needs a database, a browser, an engine or Java."""
UNITS = (ROOT / "tests/push/unit", ROOT / "tests/merge/unit")
OTHERS = {
    "common/papers/test_guarantees.py": "the same promises, for every estimator",
    "common/papers/test_inputs.py": "the same refusals, for every estimator",
    "common/papers/test_readings.py": "contribution rates by sign and by magnitude, in each method",
    "common/papers/test_sklearn.py": "scikit-learn's own checks, for every estimator",
    "common/kernel/privacy/noise/test_sampler_ties.py": "the three private modules of the samplers",
    "owner/selftest/test_new_ledgers.py": "ledgers that the self-test begins, in several modules",
}
"""Tests of no single module, and what they test instead."""
TOUCHES_ALL = {"pyproject.toml", "requirements/dev.lock", "requirements/tests", "tests/conftest.py"}


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    return listed.stdout.splitlines()


@cache
def imported(path: Path) -> frozenset[str]:
    return imported_names(nodes(path))


def reached(path: Path) -> set[str]:
    """Modules that a file of tests imports, by other files of tests too."""
    found, left = set[str](), [path]
    while left:
        for name in imported(left.pop()) - found:
            found.add(name)
            file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("tests.") and file.exists():
                left.append(file)
    return found


def test_every_test_is_in_a_tier() -> None:
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in _test_files(ROOT / "tests")}
    assert folders == {*TIERS, "static"}


def test_every_unit_test_is_named_for_a_module_or_a_folder_of_the_source() -> None:
    tests = [path.relative_to(unit) for unit in UNITS for path in unit.rglob("test_*.py")]
    assert len(tests) == len(set(tests)) > 150
    assert {str(path) for path in tests if not _has_source(path)} == OTHERS.keys()


def _has_source(test: Path) -> bool:
    """Whether there is ``NAME.py`` or ``NAME/`` at the place of ``test_NAME.py``, or it is NAME."""
    folder, name = ROOT / test.parent, test.stem.removeprefix("test_")
    return name == folder.name or (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def test_units_of_what_privacy_rests_on_are_tried_at_every_push() -> None:
    rooms = [{path.name for path in unit.iterdir() if any(path.rglob("*.py"))} for unit in UNITS]
    assert rooms == [{"common", "curator", "owner"}, {"benchmarks", "common", "deploy"}]
    below = {path.relative_to(UNITS[1]).parts[1] for path in UNITS[1].glob("common/**/*.py")}
    assert below == {"papers"}, "the lab's wheel, which no site and no curator imports"


def test_the_push_tier_needs_nothing_but_python() -> None:
    files = [*_test_files(ROOT / "tests/push"), *(ROOT / "tests/push").rglob("conftest.py")]
    assert len(files) > 200
    assert {str(path) for path in files if reached(path) & BEYOND_PYTHON} == set()


def test_the_test_command_is_the_push_tier_and_ci_runs_it_last() -> None:
    assert re.search(r"^make test +#", (ROOT / "README.md").read_text(), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    for target, folder in (("test", "push"), ("test-merge", "merge")):
        assert f"\n{target}: install\n\t$(PYTEST) tests/{folder}\n" in makefile
    static = makefile.partition("\nstatic: install\n")[2].partition("\n\n")[0]
    assert "\t$(PYTEST) tests/static" in static.splitlines()
    phases = re.findall(r"^phase ([\w-]+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert phases[-3:] == ["test-merge", "test-night", "test"]


def test_every_folder_of_the_night_is_a_suite() -> None:
    folders = {path.name for path in (ROOT / "tests/night").iterdir() if any(path.glob("test_*"))}
    assert folders == SUITES.keys() - {"laws", "fuzz"}


def test_the_table_knows_every_file_but_those_that_touch_all() -> None:
    unknown = {path for path in tracked() if not any(fnmatchcase(path, row) for row in TOUCHES)}
    assert unknown <= TOUCHES_ALL
    for row in TOUCHES:
        assert any(fnmatchcase(path, row) for path in tracked()), f"{row} fits no file"
    assert {name for row in TOUCHES.values() for name in row.split()} == SUITES.keys()


@pytest.mark.parametrize(
    ("paths", "suites"),
    [
        ([], set()),
        (["CHANGELOG.md", "docs/threat-model.md"], set()),
        (["README.md"], {"guides"}),
        (["docs/how-to/use-dask.md", "tests/push/unit/common/kernel/test_study.py"], {"guides"}),
        (["deploy/Dockerfile"], {"containers", "guides"}),
        (["owner/engines/spark.py"], {"spark", "guides"}),
        (["tests/night/spark/two_ways.py"], {"spark"}),
        (["tests/golden/pages/review-390-dark.png"], {"pictures"}),
        (
            ["common/kernel/privacy/noise/sampler.py"],
            {"laws", "audits", "papers", "accuracy", "guides"},
        ),
        (["CHANGELOG.md", "pyproject.toml"], SUITES.keys()),
        (["a/new/room.py"], SUITES.keys()),
    ],
)
def test_a_change_touches_these_suites(paths: list[str], suites: set[str]) -> None:
    assert touched_suites(paths) == suites


def _test_files(folder: Path) -> Iterator[Path]:
    return folder.rglob("test_*.py")
