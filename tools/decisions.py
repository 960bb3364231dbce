"""Index of decisions, made from the decisions themselves.

A decision is a page of ``docs/decisions``, or a section of a page of ``docs/explanation``. It
begins with a heading "12. Title", or "12, 14. Title" if one text holds several numbers, and a line
"Status: accepted (2026-11-21)". A status names other decisions by number: "superseded by 73",
"accepted, extended by 95".
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.markdown import ROOT, slug

FOLDER = ROOT / "docs/decisions"
EXPLANATION = ROOT / "docs/explanation"
_DECISION = re.compile(
    r"^#+ (?P<heading>(?P<numbers>[1-9]\d*(?:, [1-9]\d*)*)\. (?P<title>.+))\n\n"
    r"Status: (?P<status>(?:accepted|superseded)[^\n]*?) \(\d{4}-\d\d-\d\d\)\n",
    re.MULTILINE,
)
_HEAD = """# Decisions

What was decided, and why. A decision that binds changes of the code is a page here. One that
explains a subject is a section of that subject's page in `docs/explanation`. Begin either as the
others do and run `python -m tools.pages`, which makes this index; a test compares it. Nothing of 26
and 33 still holds.

| number | decision |
| ---: | --- |
"""
_SECTIONS = """
| page | numbers of its sections |
| --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the index; ``link`` is relative to the folder of decisions."""

    numbers: tuple[int, ...]
    title: str
    status: str
    link: str


def read_decisions() -> list[Decision]:
    """Return all decisions by number; raise `ValueError` for a bad page or a number twice."""
    decisions = sorted([*_pages(), *_sections()], key=lambda each: each.numbers)
    numbers = [number for each in decisions for number in each.numbers]
    repeated = sorted({number for number in numbers if numbers.count(number) > 1})
    if repeated:
        raise ValueError(f"two decisions have the number {repeated}")
    return decisions


def index() -> str:
    """Return the whole page."""
    decisions = read_decisions()
    numbered = {number: each for each in decisions for number in each.numbers}

    def linked(match: re.Match[str]) -> str:
        return f"[{match[0]}]({numbered[int(match[0])].link})"

    def note(status: str) -> str:
        """Return what a status says besides "accepted"."""
        left = re.sub("^accepted(, )?", "", status)
        return f", {re.sub('[0-9]+', linked, left)}" if left else ""

    rows = [
        f"| {', '.join(map(str, each.numbers))} "
        f"| [{each.title}]({each.link}){note(each.status)} |\n"
        for each in decisions
        if not each.link.startswith("../")
    ]
    return _HEAD + "".join(rows) + _SECTIONS + "".join(_section_rows(decisions))


def _section_rows(decisions: list[Decision]) -> Iterator[str]:
    """One row for each page of explanations, with a link for each number."""
    links = defaultdict[str, list[str]](list)
    for each in decisions:
        page, _, anchor = each.link.partition("#")
        if anchor:
            links[page] += [f"[{number}]({each.link})" for number in each.numbers]
    for page, numbers in sorted(links.items()):
        yield f"| [{Path(page).stem}]({page}) | {', '.join(numbers)} |\n"


def _pages() -> Iterator[Decision]:
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        match = _DECISION.match(path.read_text())
        if match is None or int(path.name[:4]) not in _numbers(match):
            raise ValueError(f"{path.name} does not begin with its number, title and status")
        yield _decision(match, path.name)


def _sections() -> Iterator[Decision]:
    for path in sorted(EXPLANATION.glob("*.md")):
        for match in _DECISION.finditer(path.read_text()):
            yield _decision(match, f"../explanation/{path.name}#{slug(match['heading'])}")


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in match["numbers"].split(", "))


def _decision(match: re.Match[str], link: str) -> Decision:
    status = re.sub(r"\[(\d+)\]\([^)]*\)", r"\1", match["status"])
    return Decision(_numbers(match), match["title"], status, link)
