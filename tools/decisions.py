"""The index of decisions, made from the decisions themselves.

A decision is a page of ``docs/decisions``, or a section of `PERFORMANCE`. It begins with a heading
"12. What was decided" and a line "Status: accepted (2026-11-21)". A status names other decisions by
number: "superseded by 73", "accepted, extended by 95".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.markdown import ROOT, slug

FOLDER = ROOT / "docs/decisions"
PERFORMANCE = ROOT / "docs/explanation/performance-engineering.md"
_DECISION = re.compile(
    r"^#+ (?P<heading>(?P<number>[1-9]\d*)\. (?P<title>.+))\n\n"
    r"Status: (?P<status>(?:accepted|superseded)[^\n]*?) \((?P<date>\d{4}-\d\d-\d\d)\)\n",
    re.MULTILINE,
)
_HEAD = """# Decisions

What was decided, and why. Each page gives the context, the decision and its consequences. Add a
page `NNNN-what-was-decided.md` that begins as the others do and run `python -m tools.pages`, which
makes this index; a test compares it. A decision that is replaced keeps its page and says by which.

| number | decision | status | date |
| ---: | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the index; ``link`` is relative to the folder of decisions."""

    number: int
    title: str
    status: str
    date: str
    link: str


def read_decisions() -> list[Decision]:
    """All decisions, ordered by number.

    Raises
    ------
    ValueError
        A page does not begin as a decision does, or two have one number.
    """
    decisions = sorted([*_pages(), *_sections()], key=lambda each: each.number)
    numbers = [each.number for each in decisions]
    repeated = sorted({number for number in numbers if numbers.count(number) > 1})
    if repeated:
        raise ValueError(f"two decisions have the number {repeated}")
    return decisions


def index() -> str:
    """The whole page."""
    decisions = read_decisions()
    links = {str(each.number): each.link for each in decisions}

    def linked(match: re.Match[str]) -> str:
        return f"[{match[0]}]({links[match[0]]})"

    rows = [
        f"| {each.number} | [{each.title}]({each.link}) "
        f"| {re.sub(r'[0-9]+', linked, each.status)} | {each.date} |\n"
        for each in decisions
    ]
    return _HEAD + "".join(rows)


def _pages() -> Iterator[Decision]:
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        match = _DECISION.match(path.read_text())
        if match is None or int(path.name[:4]) != int(match["number"]):
            raise ValueError(f"{path.name} does not begin with its number, title and status")
        yield _decision(match, path.name)


def _sections() -> Iterator[Decision]:
    page = PERFORMANCE.relative_to(ROOT / "docs")
    for match in _DECISION.finditer(PERFORMANCE.read_text()):
        yield _decision(match, f"../{page}#{slug(match['heading'])}")


def _decision(match: re.Match[str], link: str) -> Decision:
    status = re.sub(r"\[(\d+)\]\([^)]*\)", r"\1", match["status"])
    return Decision(int(match["number"]), match["title"], status, match["date"], link)
