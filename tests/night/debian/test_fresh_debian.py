"""Both commands of the README, on a fresh installation of the newest Debian and its Python.

"Python 3.11 or newer" is a promise about Pythons that the developers do not run: from 3.12 on, say,
`sum` of floats gives other last digits. It is one about packages, too, where pyproject.toml sets no
highest version: so both commands run again with the newest of the registry.
"""

import re
import shutil
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.checkout import ROOT
from tests.support.debian import DebianRoot

PIP = "python3 tools/install.py pip --python .venv/bin/python"


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
    assert count_passed(debian) > 5_000


def test_both_pass_with_the_newest_packages_of_the_registry(debian: DebianRoot) -> None:
    names = " ".join(sorted(unbounded()))
    debian.run(f"{PIP} install --quiet --upgrade --upgrade-strategy eager {names}")
    newer = f"{PIP} install --dry-run --no-deps --upgrade numpy scipy pyarrow polars"
    assert "Would install" not in debian.run(newer)
    debian.run("make demo")
    assert count_passed(debian) > 5_000


def unbounded() -> set[str]:
    """Packages that DPPCA or its tests declare without a highest version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"]]
    lines += [line for name, each in optional.items() if name != "spark" for line in each]
    asked = (each for each in map(Requirement, lines) if not each.name.startswith("dppca"))
    return {
        canonicalize_name(each.name)
        for each in asked
        if all(bound.operator == ">=" for bound in each.specifier)
    }


def count_passed(debian: DebianRoot) -> int:
    (passed,) = re.findall(r"^\D*(\d+) passed", debian.run("make test").splitlines()[-1])
    return int(passed)
