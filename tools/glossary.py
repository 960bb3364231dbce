"""The part of the glossary that pages show too, from `dppca.common.shell.glossary`."""

import textwrap

from dppca.common.shell.glossary import WORDS
from tools.markdown import ROOT

PATH = "docs/reference/glossary.md"
_BEGIN = "# Glossary\n"
_END = "\n*Code* gives"


def glossary_page() -> str:
    """Return the page, with the words of stewards written again."""
    after = (ROOT / PATH).read_text().partition(_END)[2]
    lines = (
        textwrap.fill(f"- **{each.term}**: {each.meaning}", 120, subsequent_indent="  ")
        for each in WORDS
    )
    head = f"{_BEGIN}\n<!-- made by tools.pages -->\n\n## Words for a steward\n\n"
    return head + "\n".join(lines) + f"\n{_END}{after}"
