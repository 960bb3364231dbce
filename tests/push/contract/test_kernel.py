"""The page that leads through the kernel names every file of it once, and tests that exist."""

import configparser
import re
import subprocess
import sys
from pathlib import Path

from dppca.common.kernel import schema
from tests.support.checkout import ROOT

PAGE = ROOT / "docs/explanation/read-the-kernel.md"
MOST_LINES = 24_085
"""Squares of a weight and halved products took 290 lines: a third of them is their proof, and much
of the rest the search by which L1 is exact for weights that cost something. Matrix noise of people
and of a secret number took 250 more: a third is proof. A class of joint laws took 250: it cut one
module into five. A study's own questions took 14, a secret number that is read from totals of
tables and rows of people that wait to be sorted together 45. What several people sign took 1,700:
signatures of OpenSSH, roles, statements, the rules of their entries, and the gate in the ledger.
Imports where they are used took 34: commands that read a ledger, or a study's cost, load less.
What a study pins of what people sign, for anybody to check without a ledger, took 380, of which
votes and openings took 30: verifiers name their people. What a curator has seen of it took 25. What
people sign beforehand, with a contribution, took 163: its form, and what of it the gate lets
through. That a damaged credential is named took 17."""


def _files() -> set[Path]:
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    places = (
        ROOT / name.removeprefix("dppca.").replace(".", "/")
        for name in rules["importlinter:contract:kernel"]["modules"].split()
    )
    return {
        file
        for place in places
        for file in (place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")])
        if len(file.read_text().splitlines()) > 1
    }


def _named(cell: str) -> list[Path]:
    """The files of a cell; a name alone stands in the folder of the one before it."""
    found: list[Path] = []
    folder = ROOT
    for name in re.findall(r"`([^`]+)`", cell):
        place = ROOT / name if "/" in name else folder / name
        folder = place if place.is_dir() else place.parent
        if name.endswith("/"):
            found += place.rglob("*.py")
        elif "/" in name or place.is_file():
            found.append(place)
    return found


def _cells() -> list[tuple[str, str]]:
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if "| `" in line]
    return [(cells[0], cells[2]) for cells in rows]


def test_every_file_of_the_kernel_has_a_place_on_the_page() -> None:
    named = [path for files, _ in _cells() for path in _named(files)]
    assert _files() - set(named) == set(), "not on the page"
    others = {path for path in set(named) - _files() if path.name != "__init__.py"}
    assert not others, "not of the kernel"


def test_every_row_names_tests_that_exist() -> None:
    for files, tests in _cells():
        places = _named(tests)
        assert places, files
        assert all(place.exists() for place in places), tests


def test_the_kernel_can_be_read_in_two_days() -> None:
    assert sum(len(file.read_text().splitlines()) for file in _files()) <= MOST_LINES


def test_each_name_of_the_schemas_room_has_one_module_that_is_loaded_with_it_alone() -> None:
    assert schema._HOMES.keys() == set(schema.__all__)
    assert all(hasattr(schema, name) for name in schema.__all__)
    code = f"import sys; from {schema.__name__} import ColumnKind; print('pydantic' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
