"""Words of the documentation are counted for each reader, and a page once for several."""

from pathlib import Path

import pytest

from tools import words
from tools.markdown import ROOT

INDEX = """# Index

## You look: *steward*

[One](one.md), [part of it](one.md#part), ![no page](picture.png), [a notebook](a.ipynb)

## You serve: *operator*

[One](one.md), [two](below/two.md)

## You check: *auditor*

[Root](../ROOT.md)

## You try: *researcher*

## You build: *developer*

[Three](three.md)
"""
NAVIGATION = """nav:
  - index.md
  - How to:
      - Steward: [one.md]
      - Researcher:
          - below/two.md
      - Others: [three.md]
"""
TEXTS = {"one.md": "a b c d", "below/two.md": "a b", "three.md": "a", "../ROOT.md": "a b c"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {**TEXTS, "index.md": INDEX, "../mkdocs.yml": NAVIGATION}.items():
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_each_reader_has_the_pages_of_the_index_and_of_the_navigation(root: Path) -> None:
    sums = words.find_sums(root)
    readers = {reader: sums[reader] for reader in words.READERS}
    assert readers == {"steward": 4, "operator": 6, "auditor": 3, "researcher": 2, "developer": 1}


def test_a_page_of_several_readers_counts_once_together(root: Path) -> None:
    sums = words.find_sums(root)
    assert sums["together"] == 4 + 2 + 3
    assert sums["docs"] == 4 + 2 + 1 + len(INDEX.split()), "pages of the root are no part of docs"


def test_a_reader_without_a_section_is_an_error(root: Path) -> None:
    (root / "docs/index.md").write_text(INDEX.replace("*auditor*", "auditor"))
    with pytest.raises(KeyError, match="auditor"):
        words.find_pages(root)


@pytest.mark.parametrize(
    ("more", "named"), [({}, []), ({"docs": 1}, ["docs"]), ({"together": 1}, ["together"])]
)
def test_one_word_above_a_bound_is_a_fault(more: dict[str, int], named: list[str]) -> None:
    most = {"docs": words.MOST_WORDS, "together": words.MOST_WORDS_TOGETHER}
    sums = {name: bound + more.get(name, 0) for name, bound in most.items()}
    assert [fault.partition(":")[0] for fault in words.find_faults(sums)] == named


def test_every_reader_of_the_index_is_led_to_pages_that_are_there() -> None:
    pages = words.find_pages(ROOT)
    assert all(len(found) > 1 for found in pages.values())
    assert [path for found in pages.values() for path in found if not path.exists()] == []
