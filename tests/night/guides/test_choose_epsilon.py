"""The commands of ``docs/how-to/choose-epsilon.md``, and what the page says that they print."""

from __future__ import annotations

import re

import pytest

from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks

PAGE = ROOT / "docs/how-to/choose-epsilon.md"
NUMBER = r"-?\d+\.?\d*(?:e-?\d+)?"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> PageShell:
    shell = PageShell(tmp_path_factory.mktemp("page"), read_blocks(PAGE))
    shell.run("study")
    return shell


def require_same(block: str, output: str) -> None:
    """The page's lines are among those printed; figures to the last digits of a rehearsal."""
    shown = re.search(rf"<!-- printed: {block} -->\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown is not None
    for line in shown[1].splitlines():
        assert any(_is_same(line, each) for each in output.splitlines()), line


def _is_same(line: str, other: str) -> bool:
    words, figures = re.split(NUMBER, line), [float(each) for each in re.findall(NUMBER, line)]
    found = [float(each) for each in re.findall(NUMBER, other)]
    return [each.split() for each in words] == [
        each.split() for each in re.split(NUMBER, other)
    ] and figures == pytest.approx(found, rel=0.02, abs=0.01)


def test_many_rows_give_what_the_page_says(shell: PageShell) -> None:
    require_same("many", shell.run("many"))


def test_few_rows_give_what_the_page_says(shell: PageShell) -> None:
    require_same("few", shell.run("few"))
