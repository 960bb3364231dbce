"""Page of all limits in the code, a table for each room: name, value and reason.

A limit is a number at the top of a module whose public name begins with ``MAX_``, ``MOST_`` or
``LARGEST_``. Its reason is the comment on its line, or the text below it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.markdown import ROOT
from tools.syntax import parse

SIDES = ("common", "owner", "curator", "deploy")
BEGINNINGS = ("MAX_", "MOST_", "LARGEST_")
_HEAD = """# Limits

What DPPCA bounds, by room. This page is made from the code. What a *study* may ask is
[in its own reference](study-file.md), the curator's settings are in
[the commands](cli.md).
"""


_NAMES = ("| limit | where | value | reason |", "| --- | --- | ---: | --- |")


class Limit(NamedTuple):
    """A limit, where it stands, and why it is so; ``reason`` is empty where nothing says it."""

    module: str
    name: str
    value: str
    reason: str


def list_limits() -> list[Limit]:
    """Return all limits, by module."""
    return [
        limit
        for side in SIDES
        for path in sorted((ROOT / side).rglob("*.py"))
        for limit in _limits_in(path)
    ]


def page() -> str:
    """Return the site's ``reference/limits.md``."""
    rooms: dict[str, list[Limit]] = {}
    for limit in list_limits():
        rooms.setdefault("/".join(limit.module.split("/")[:2]), []).append(limit)
    lines = [_HEAD]
    for room, limits in rooms.items():
        lines += [f"## {room}", "", *_NAMES]
        lines += [_line(limit) for limit in limits]
        lines.append("")
    return "\n".join(lines)


def _line(limit: Limit) -> str:
    return f"| `{limit.name}` | `{limit.module}` | {limit.value} | {limit.reason} |"


def _limits_in(path: Path) -> Iterator[Limit]:
    body, lines = parse(path).body, path.read_text().splitlines()
    for place, node in enumerate(body):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        below = body[place + 1] if place + 1 < len(body) else None
        _, _, comment = lines[node.lineno - 1].partition("#")
        reason = comment.strip() or _text(below)
        for name, each in _pairs(target, value):
            if isinstance(name, ast.Name) and name.id.startswith(BEGINNINGS):
                module = str(path.relative_to(ROOT).with_suffix(""))
                yield Limit(module, name.id, _shown(each), " ".join(reason.split()))


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _text(node: ast.stmt | None) -> str:
    """Return the text that stands below a name; empty if something else does."""
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return ""


def _shown(value: ast.expr) -> str:
    """Return a number in full, and what is computed of other names as it is written."""
    names = [each for each in ast.walk(value) if isinstance(each, ast.Name | ast.Attribute)]
    if names:
        return f"`{ast.unparse(value)}`"
    number = eval(compile(ast.Expression(value), "limit", "eval"), {"__builtins__": {}})  # noqa: S307
    return f"{number:,}"
