"""Words of the documentation, by reader; ``python -m tools.words`` fails above the bounds.

A word is what stands between blanks. The index leads a reader to the pages that it links below the
heading with the reader's name in *italics*, the navigation to those of the group with that name.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from tools.markdown import ROOT, find_links

MOST_WORDS = 75_000
MOST_WORDS_TOGETHER = 42_800
READERS = ("steward", "operator", "auditor", "researcher", "developer")
TOGETHER = ("steward", "operator", "auditor")
_SECTION = re.compile(r"^## [^\n]*\*(\w+)\*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def count_words(pages: Iterable[Path]) -> int:
    """Words of all pages together."""
    return sum(len(page.read_text("utf-8").split()) for page in pages)


def find_pages(root: Path) -> dict[str, set[Path]]:
    """Markdown pages that each reader is led to; `KeyError` for a reader without a section."""
    sections = dict(_SECTION.findall((root / "docs/index.md").read_text("utf-8")))
    navigation = yaml.safe_load((root / "mkdocs.yml").read_text("utf-8"))["nav"]
    named = {
        reader: {*find_links(sections[reader]), *_find_group(navigation, reader)}
        for reader in READERS
    }
    return {
        reader: {(root / "docs" / name).resolve() for name in _without_anchors(names)}
        for reader, names in named.items()
    }


def find_sums(root: Path) -> dict[str, int]:
    """Words for each reader, for `TOGETHER` with each page once, and of all of ``docs``."""
    pages = find_pages(root)
    sums = {reader: count_words(pages[reader]) for reader in READERS}
    together = set[Path]().union(*(pages[reader] for reader in TOGETHER))
    return {
        **sums,
        "together": count_words(together),
        "docs": count_words((root / "docs").rglob("*.md")),
    }


def find_faults(sums: Mapping[str, int]) -> list[str]:
    """Bounds that are passed, in words."""
    bounds = {"docs": MOST_WORDS, "together": MOST_WORDS_TOGETHER}
    return [
        f"{name}: {sums[name]:,} words, at most {most:,}"
        for name, most in bounds.items()
        if sums[name] > most
    ]


def _find_group(navigation: Any, reader: str) -> list[str]:
    """Pages of the group of a reader, wherever it stands in MkDocs' list of lists."""
    if isinstance(navigation, str):
        return []
    if isinstance(navigation, list):
        return [page for part in navigation for page in _find_group(part, reader)]
    return [
        page
        for title, part in navigation.items()
        for page in (part if title.lower() == reader else _find_group(part, reader))
    ]


def _without_anchors(links: Iterable[str]) -> set[str]:
    paths = {link.partition("#")[0] for link in links}
    return {path for path in paths if path.endswith(".md")}


@click.command()
def main() -> None:
    """Print the words of each reader's pages, and fail where a bound is passed."""
    sums = find_sums(ROOT)
    for name, words in sums.items():
        click.echo(f"{', '.join(TOGETHER) if name == 'together' else name:34} {words:7,}")
    if faults := find_faults(sums):
        raise click.ClickException("; ".join(faults))


if __name__ == "__main__":
    main()
