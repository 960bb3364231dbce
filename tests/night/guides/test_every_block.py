"""Every block of a page that is called `sh` is run by the test of the page."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.checkout import ROOT
from tests.support.page_shell import read_blocks

_PAGE = re.compile(r'^[A-Z_]+ = ROOT / "(docs/[\w/-]+\.md)"$', re.MULTILINE)
PAGES: dict[Path, str] = {}
"""Text of a page's tests: it follows the page's constant, up to that of the next page."""
for test in sorted(Path(__file__).parent.glob("test_*.py")):
    _, *found = _PAGE.split(test.read_text())
    PAGES |= {ROOT / page: text for page, text in zip(found[::2], found[1::2], strict=True)}
for test in sorted((ROOT / "tests/merge").rglob("test_*.py")):  # what each landing runs of them
    _, *found = _PAGE.split(test.read_text())
    for page, text in zip(found[::2], found[1::2], strict=True):
        PAGES |= {ROOT / page: PAGES[ROOT / page] + text} if ROOT / page in PAGES else {}
ASSIGNMENTS = re.compile(r"(?:(?:export )?[A-Z_]+=\S+ *#.*\n)+")
"""The block of a page that its reader changes; a test has variables of its own."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_run(page: Path) -> None:
    blocks = read_blocks(page)
    called = set(re.findall(r'\.run\("([\w-]+)"\)', PAGES[page]))
    assert called >= set(blocks)
    found = re.findall(r"^( *)```sh\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL)
    unnamed = {dedent(text) for _, text in found}
    assert all(ASSIGNMENTS.fullmatch(block) for block in unnamed - {*blocks.values()})
