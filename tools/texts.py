"""Every text that a command or page shows, by file and line: to be read through as a whole.

``python -m tools.texts`` finds five kinds and imports nothing of what it reads. *Page*: templates,
without tags. *Help*: docstrings of commands, texts of their options. *Key*: meanings of JSON keys,
in `Annotated`. *Refusal*: what an error of `dppca.common.kernel.errors`, or of click, is given.
*Line*: any other text of two words or more, printed or part of a refusal. A value is its
``{expression}``.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import click

from dppca.common.kernel.errors import error_kinds
from tools.markdown import ROOT
from tools.syntax import parse

KINDS = ("page", "help", "key", "refusal", "line")
_ROOMS = ("common", "owner", "curator", "deploy")
_ERRORS = {kind.__name__ for kind in error_kinds()} | {"UsageError", "BadParameter"}
_BLOCK = re.compile(r"\{%.*?%\}|</?(?!(?:a|b|i|code|small|span|summary)\b)[a-z!][^<>]*>", re.DOTALL)
_INLINE = re.compile(r"</?[a-z][^<>]*>", re.DOTALL)
_WORDS = re.compile(r"[^\W\d_]+[,.:;]? \(?[^\W\d_]+")
_SQL = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|DROP|WITH|BEGIN|ALTER)\b")


@dataclass(frozen=True, slots=True)
class Text:
    """One text, and the place where it begins."""

    path: str
    line: int
    kind: str
    text: str


def texts_of_template(path: str, source: str) -> Iterator[Text]:
    """Yield what a template shows between blocks, and the texts inside its code."""
    source = re.sub(r"\{#.*?#\}", _blank, source, flags=re.DOTALL)
    for code in re.finditer(r"\{[{%](.*?)[%}]\}", source, re.DOTALL):
        for text in re.finditer(r'"([^"]*)"', code[1]):
            if _WORDS.search(text[1]):
                line = source.count("\n", 0, code.start(1) + text.start()) + 1
                yield Text(path, line, "page", text[1])
    shown = re.sub(r"\{\{(.*?)\}\}", _without_brackets, source, flags=re.DOTALL)
    shown = _BLOCK.sub(lambda block: "\0" + _blank(block), shown)
    shown = _INLINE.sub(lambda tag: " " + _blank(tag), shown)
    for part in re.finditer(r"\s*([^\0]+)", shown):
        if re.search(r"[^\W\d_]{2}", re.sub(r"\{.*?\}", "", part[1])):
            yield Text(path, shown.count("\n", 0, part.start(1)) + 1, "page", _joined(part[1]))


def texts_of_module(path: str, tree: ast.Module) -> Iterator[Text]:
    """Yield the texts of a module; of docstrings only those of commands."""
    yield from _texts_below(path, tree, "line")


def _texts_below(path: str, node: ast.AST, kind: str) -> Iterator[Text]:
    if isinstance(node, ast.Constant | ast.JoinedStr):
        if _WORDS.search(text := _as_shown(node)) and not _SQL.match(text):
            yield Text(path, node.lineno, kind, _joined(text))
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.FunctionDef):
        calls = (_name(each.func) for each in node.decorator_list if isinstance(each, ast.Call))
        if {"command", "group"} & set(calls) and (docstring := ast.get_docstring(node)):
            yield Text(path, node.lineno, "help", _joined(docstring))
    if isinstance(node, ast.Call) and _name(node.func) in _ERRORS:
        kind = "refusal"
    if isinstance(node, ast.keyword) and node.arg == "help":
        kind = "help"
    if isinstance(node, ast.Subscript) and _name(node.value) == "Annotated":
        kind = "key"
    for child in ast.iter_child_nodes(node):
        yield from _texts_below(path, child, kind)


def _as_shown(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_as_shown, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _joined(text: str) -> str:
    return " ".join(text.split())


def _without_brackets(value: re.Match[str]) -> str:
    return f"{{{re.sub('[<>]', '', value[1])}}}"


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def texts() -> Iterator[Text]:
    """Yield all texts of the product, file by file."""
    listed = subprocess.check_output(["git", "ls-files", *_ROOMS], cwd=ROOT, text=True)
    for path in listed.splitlines():
        if "/templates/" in path:
            yield from texts_of_template(path, (ROOT / path).read_text())
        elif path.endswith(".py") and not path.startswith("common/wire/"):
            yield from texts_of_module(path, parse(ROOT / path))


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this kind.")
def main(paths: tuple[str, ...], kinds: tuple[str, ...]) -> None:
    """List every text that a command or page shows, of all files or of those below PATHS."""
    kept = [each for each in texts() if each.kind in (kinds or KINDS)]
    kept = [each for each in kept if each.path.startswith(paths or ("",))]
    for path, group in groupby(kept, attrgetter("path")):
        click.echo(f"\n{path}")
        for each in sorted(group, key=attrgetter("line")):
            click.echo(f"{each.line:5} {each.kind:8}{each.text}")
    click.echo(f"\n{len(kept)} texts")


if __name__ == "__main__":
    main()
