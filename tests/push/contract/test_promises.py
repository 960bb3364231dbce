"""Every promise names tests that exist and run, and nothing of the threat model is left out.

A row of ``docs/promises.md`` quotes in *italics* the beginning of what it stands for: the first
cell of a table's row, or a list item, of the section of the threat model that the **bold** row
above it names. Rows of attacks quote SECURITY.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tools.syntax import parse

PAGE, THREATS, SECURITY = "docs/promises.md", "docs/threat-model.md", "SECURITY.md"
ATTACKS = "Attacks"
TEST = re.compile(r"`(tests/(?:push|merge|night)/[\w/]+\.py)::([\w:]+)`")
NEVER = re.compile(
    r"pytest\.(mark\.)?skip(\(.*)?|pytest\.mark\.(skipif\(True.*|xfail(\(\)|\(\w+=.*)?)"
)
"""Statements and marks, as ``ast.unparse`` writes them, with which no test runs or counts."""


def find_sections(text: str) -> dict[str, str]:
    """What stands below each heading of the second level."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def find_rows(text: str) -> Iterator[list[str]]:
    """The cells of the rows of all tables, without their heads."""
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and "| ---" not in (line[:5], following[:5]):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def find_items(text: str) -> list[str]:
    """What a page has to quote: first cells of rows, and list items by their first line."""
    listed = re.findall(r"^(?:-|\d+\.) (.+)$", text, re.MULTILINE)
    return [re.sub(r"[*`]", "", item) for item in [row[0] for row in find_rows(text)] + listed]


def find_faults(root: Path) -> Iterator[str]:
    """Everything that is wrong with the page of promises of a checkout."""
    wanted = {
        heading: dict.fromkeys(find_items(text), False)
        for heading, text in find_sections((root / THREATS).read_text()).items()
    }
    wanted[ATTACKS] = dict.fromkeys(find_items((root / SECURITY).read_text()), False)
    files = defaultdict[str, set[str]](set)
    for heading, text in find_sections((root / PAGE).read_text()).items():
        for promise, tests in find_rows(text):
            if promise.startswith("**"):
                heading = promise.strip("*")
                continue
            known = wanted.get(heading, {})
            quotes = [quote.replace("`", "") for quote in re.findall(r"\*([^*]+)\*", promise)]
            for quote in quotes:
                quoted = [quote] if quote in known else [x for x in known if x.startswith(quote)]
                known.update(dict.fromkeys(quoted, True))
                if len(quoted) != 1:
                    yield f"{heading}: {quote} begins {len(quoted)} items"
            named = TEST.findall(tests)
            files[heading].update(path for path, _ in named)
            if tests == "not promised" and quotes:
                continue
            if not named or TEST.sub("", tests).strip(" ,"):
                yield f"{promise}: no test, or something else than tests"
            for path, name in named:
                yield from find_faults_of_test(root / path, name)
    for heading, known in wanted.items():
        if heading not in files:
            yield f"{heading}: no section"
        yield from (f"{heading}: {item} is in no row" for item, found in known.items() if not found)
    for path in root.glob("tests/*/attacks/test_*.py"):
        if str(path.relative_to(root)) not in files[ATTACKS]:
            yield f"{path.name}: in no row of {ATTACKS}"


def find_faults_of_test(path: Path, name: str) -> Iterator[str]:
    """Nothing where the test exists and nothing keeps all of it from running."""
    place: ast.Module | ast.ClassDef | ast.FunctionDef
    place = parse(path) if path.is_file() else ast.Module([], [])
    said = _statements(place)
    for part in name.split("::"):
        found = [
            each
            for each in place.body
            if isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name == part
        ]
        if not found:
            yield f"{path.name}: no {name}"
            return
        place = found[0]
        said += _statements(place) + [ast.unparse(mark) for mark in place.decorator_list]
    if not part.startswith("test_"):
        yield f"{path.name}: {name} is no test"
    if any(NEVER.fullmatch(text) for text in said):
        yield f"{path.name}: {name} never runs"


def _statements(place: ast.Module | ast.ClassDef | ast.FunctionDef) -> list[str]:
    """What stands directly in a body, and each mark of its ``pytestmark``."""
    said = list[str]()
    for each in place.body:
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
            said.append(ast.unparse(each))
        elif isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark":
            marks = each.value.elts if isinstance(each.value, ast.List) else [each.value]
            said += map(ast.unparse, marks)
    return said


def test_every_promise_has_tests_that_run_and_nothing_is_left_out() -> None:
    assert list(find_faults(ROOT)) == []
    assert len(list(find_rows((ROOT / PAGE).read_text()))) > 100


GOOD, INNER = "`tests/push/test_a.py::test_good`", "`tests/push/test_a.py::TestC::test_in`"
FILES = {
    THREATS: "## First\n\n| who | what |\n| --- | --- |\n| one `x` | - |\n\n- *Two.* More\n",
    SECURITY: "| what was wrong | what to do |\n| --- | --- |\n| **Hole.** Old | - |\n",
    PAGE: "## Threats\n\n| promise | test |\n| --- | --- |\n| **First** | |\n"
    f"| *one*: kept | {GOOD}, {INNER} |\n| *Two* | not promised |\n\n"
    "## Attacks\n\n| *Hole* | `tests/night/attacks/test_b.py::test_it` |\n",
    "tests/night/attacks/test_b.py": "pytestmark = [pytest.mark.slow]\ndef test_it(): ...\n",
    "tests/push/test_a.py": "@pytest.mark.skipif(LINUX, reason='no')\ndef test_good(): ...\n"
    "@pytest.mark.skip\ndef test_mark(): ...\n"
    "@pytest.mark.skip(reason='later')\ndef test_reason(): ...\n"
    "@pytest.mark.xfail(reason='wrong')\ndef test_fails(): ...\n"
    "def test_body():\n    pytest.skip('later')\n"
    "def helper(): ...\n"
    "class TestC:\n    def test_in(self): ...\n"
    "class TestD:\n    pytestmark = pytest.mark.skip\n    def test_in(self): ...\n",
}


@pytest.mark.parametrize(
    ("path", "old", "new", "says"),
    [
        (PAGE, "", "", ""),
        (PAGE, "::test_good", "::test_gone", "no test_gone"),
        (PAGE, "::TestC::test_in", "::test_in", "no test_in"),
        (PAGE, "push/test_a.py::test_good", "push/test_z.py::test_good", "no test_good"),
        (PAGE, "::test_good", "::helper", "helper is no test"),
        (PAGE, "::test_good", "::test_mark", "test_mark never runs"),
        (PAGE, "::test_good", "::test_reason", "test_reason never runs"),
        (PAGE, "::test_good", "::test_fails", "test_fails never runs"),
        (PAGE, "::test_good", "::test_body", "test_body never runs"),
        (PAGE, "TestC", "TestD", "never runs"),
        ("tests/push/test_a.py", "@", "pytestmark = pytest.mark.skip\n@", "never runs"),
        (PAGE, "tests/push/test_a.py::test_good", "tests/other/test_a.py::test_good", "else than"),
        (PAGE, "not promised", "a test", "no test"),
        (PAGE, "*Two* |", "two |", "Two. More is in no row"),
        (PAGE, "*one*", "*none*", "none begins 0 items"),
        (PAGE, "**First", "**Other", "First: no section"),
        (THREATS, "- *Two", "- *Three* x\n- *Two", "Three x is in no row"),
        (THREATS, "one `x`", "one | - |\n| ones", "ones is in no row"),
        (SECURITY, "| **Hole", "| New | - |\n| **Hole", "New is in no row"),
        (
            PAGE,
            "night/attacks/test_b.py::test_it`",
            "push/test_a.py::test_good`",
            "test_b",
        ),
    ],
)
def test_a_fault_of_the_page_is_named(
    tmp_path: Path, path: str, old: str, new: str, says: str
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert old in FILES[path]
    (tmp_path / path).write_text(FILES[path].replace(old, new, 1))
    faults = list(find_faults(tmp_path))
    assert bool(faults) == bool(says)
    assert says in "\n".join(faults)
