"""Syntax trees of this repository's Python files, each parsed once in a process.

Parsing all of them takes five seconds and their trees 260 MB, so whoever has asked for many calls
`forget` at the end.
"""

import ast
from functools import cache
from pathlib import Path


@cache
def parse(path: Path) -> ast.Module:
    """Return a file's tree, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's tree, in the order of `ast.walk`."""
    return tuple(ast.walk(parse(path)))


def forget() -> None:
    """Give the memory of all trees back."""
    nodes.cache_clear()
    parse.cache_clear()
