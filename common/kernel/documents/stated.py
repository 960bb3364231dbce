"""What a study is for, in the words of those who ask: nobody must take them for the software's.

Such a text is one paragraph without hidden characters (`stated_fields`). A page shows it in a box
that says whose words they are; a terminal, behind a bar on every line (`quoted_lines`), so that no
line of it begins as a line of the software does.
"""

import textwrap
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any

WHOSE = "In its operator's words, which no software can check"
"""Above every such text, on pages and terminals."""
_WIDTH = 76  # characters of a line


def _text(meaning: str, *, wanted: bool = False, decides: bool = False) -> Any:
    """Make a field whose ``meaning`` drafts give; a ``wanted`` one is asked for where it lacks.

    By what ``decides``, stewards agree: where it lacks, each of them is told so.
    """
    return field(default=None, metadata={"meaning": meaning, "wanted": wanted, "decides": decides})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a study is for, in its operator's words; null for what it does not say."""

    title: Annotated[str | None, "its title"] = _text("its title, for people", wanted=True)
    purpose: Annotated[str | None, "why it is made"] = _text(
        "why it is made, in one paragraph", wanted=True, decides=True
    )
    contact: Annotated[str | None, "whom to ask about it"] = _text(
        "whom stewards may ask", wanted=True, decides=True
    )
    approval: Annotated[str | None, "who has approved it, and under which number"] = _text(
        "who has approved it, and under which number", wanted=True, decides=True
    )
    region: Annotated[str | None, "region of its people or law"] = _text("region of people or law")
    sector: Annotated[str | None, "its field"] = _text("its field, such as Healthcare")

    @property
    def said(self) -> dict[str, str]:
        """Texts by the names of their fields, without those that are not there."""
        return {name: text for name, text in asdict(self).items() if text is not None}

    @property
    def unsaid(self) -> tuple[str, ...]:
        """Names of the fields that are not there."""
        return tuple(name for name, text in asdict(self).items() if text is None)

    @property
    def lacking(self) -> tuple[str, ...]:
        """Names of the fields that an operator is asked for, and that are not there."""
        return self._missing("wanted")

    @property
    def undecided(self) -> tuple[str, ...]:
        """Names of the fields by which stewards decide, and that are not there."""
        return self._missing("decides")

    def _missing(self, mark: str) -> tuple[str, ...]:
        return tuple(
            each.name
            for each in fields(self)
            if each.metadata[mark] and getattr(self, each.name) is None
        )

    def gap(self) -> str:
        """Say which of the texts by which stewards decide are not there; empty for none."""
        names = ", ".join(self.undecided)
        return names and (
            f"NOT SAID: {names}. Ask its operator before you agree: a study can say in words that "
            "it has none"
        )

    def lines(self) -> list[str]:
        """Return lines of a terminal; none where nothing is said."""
        return [f"{WHOSE}:", *quoted_lines(self.said)] if self.said else []


def quoted_lines(texts: Mapping[str, str]) -> list[str]:
    """Return lines of at most 76 columns for texts by their names, each behind a bar."""
    margin = max(map(len, texts), default=0)
    lines = []
    for name, text in texts.items():
        wide = any(unicodedata.east_asian_width(each) in "WF" for each in text)
        width = max(20, _WIDTH - margin - 5) // (1 + wide)
        for place, line in enumerate(textwrap.wrap(text, width, break_on_hyphens=False)):
            lines.append(f"  {name if place == 0 else '':<{margin}} | {line}")
    return lines
