"""Links and headings of the project's Markdown files, and external loads of HTML pages."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|object|embed)\b[^>]*?\s(?:src|data)=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b[^>]*?\shref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<\w+\b[^>]*?\sclass=["']?(mermaid)\b"""
)
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def find_links(text: str) -> Iterator[str]:
    """Yield the targets of all links and images outside of code."""
    yield from _LINK.findall(_CODE.sub("`code`", _FENCE.sub("", text)))


def find_anchors(text: str) -> set[str]:
    """Anchors of all headings; of two equal headings only the first has the plain one."""
    return {slug(heading) for heading in _HEADING.findall(_FENCE.sub("", text))}


def find_loaded(html: str) -> Iterator[str]:
    """Yield the addresses on other hosts that a browser would load to show a page, without a click.

    An element of the class ``mermaid`` counts: the theme would load the script that draws it.
    """
    for groups in _LOADED.findall(html):
        yield "".join(groups)


def slug(heading: str) -> str:
    """Anchor that GitHub and Python-Markdown give a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
