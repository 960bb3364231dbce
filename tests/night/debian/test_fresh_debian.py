"""Both commands of the README, on a fresh installation of the newest Debian and its Python.

"Python 3.11 or newer" is a promise about Pythons that the developers do not run: from 3.12 on, say,
`sum` of floats gives other last digits.
"""

import re
import shutil
from collections.abc import Iterator

import pytest

from tests.support.checkout import ROOT
from tests.support.debian import DebianRoot


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianRoot]:
    folder = tmp_path_factory.mktemp("debian")
    try:
        yield DebianRoot(folder)
    finally:
        shutil.rmtree(folder)


def test_its_python_is_newer_than_the_lowest_one(debian: DebianRoot) -> None:
    version = debian.run("python3 -c 'import sys; print(*sys.version_info[:2])'").split()
    assert tuple(map(int, version)) >= (3, 13)


def test_the_readmes_commands_are_these_two() -> None:
    commands = re.findall(r"^(make \S+) +#", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands == ["make demo", "make test"]


def test_the_demo_runs(debian: DebianRoot) -> None:
    debian.run("make demo")
    made = debian.folder / "src/results/demo"
    assert {"report.md", "study.json"} <= {path.name for path in made.iterdir()}


def test_the_tests_pass(debian: DebianRoot) -> None:
    said = debian.run("make test")
    (passed,) = re.findall(r"^\D*(\d+) passed", said.splitlines()[-1])
    assert int(passed) > 5_000
