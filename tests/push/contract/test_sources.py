"""Nobody asks which kind of source it has: what depends on the kind is a method of the kind's.

A kind is named where it is defined and in `dppca.owner.site.source_documents`, the one table of
what a policy may name. What is not named cannot be asked for.
"""

import ast
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from dppca.owner import records
from dppca.owner.records.locations import Location
from dppca.owner.records.sources import Rows
from dppca.owner.site.source_documents import SourceDocument, SourceForm
from tests.support.checkout import ROOT
from tools.syntax import nodes

TABLE = "owner/site/source_documents.py"
FIELDS = SourceDocument.model_fields.keys()
NAMES = FIELDS - {"spark"}  # which is an engine's name, too


for each_module in iter_modules(records.__path__, f"{records.__name__}."):
    import_module(each_module.name)  # a kind is known once its module is loaded


def kinds_below(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        if each.__name__ != "Source" and each.__module__.startswith("dppca."):
            yield each
        yield from kinds_below(each)


KINDS = {each.__name__: each for base in (Rows, Location, SourceForm) for each in kinds_below(base)}
MODULES = {each.__module__.removeprefix("dppca.").replace(".", "/") for each in KINDS.values()}
OWN = {TABLE, *(f"{module}.py" for module in MODULES)}


def product() -> Iterator[Path]:
    for room in ("common", "owner", "curator", "deploy"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if str(path.relative_to(ROOT)) not in OWN:
                yield path


def questions(source: Iterable[ast.AST]) -> list[int]:
    """Lines on which a kind is named, or a source asked for its kind's name."""
    found = []
    for node in source:
        match node:
            case ast.ImportFrom(module=str(module), names=names) if "owner" in module:
                asks = any(each.name in KINDS for each in names)
            case ast.Attribute(value=ast.Attribute(attr="source"), attr=field) if field in FIELDS:
                asks = True
            case ast.Attribute(attr=name):
                asks = name in KINDS and name != "File"
            case ast.Compare(left=left, comparators=others):
                sides = (each for side in (left, *others) for each in ast.walk(side))
                asks = any(isinstance(each, ast.Constant) and each.value in NAMES for each in sides)
            case _:
                asks = False
        if asks:
            found.append(getattr(node, "lineno", 0))
    return found


def test_every_kind_is_seen() -> None:
    assert {"File", "JoinedFiles", "CsvRows", "SparkTable", "DeltaLocation"} <= KINDS.keys()
    assert all((ROOT / path).is_file() for path in OWN)


def test_no_module_asks_which_kind_of_source_it_has() -> None:
    asking = {
        str(path.relative_to(ROOT)): lines
        for path in product()
        if (lines := questions(nodes(path)))
    }
    assert not asking


@pytest.mark.parametrize(
    "question",
    [
        "from dppca.owner.records.databases import DatabaseSource",
        "x = isinstance(table.source, databases.DatabaseSource)",
        "x = each.source.spark",
        'x = place.kind == "delta"',
        'x = name in ("sqlite", "postgresql")',
    ],
)
def test_every_form_of_the_question_is_seen(question: str) -> None:
    assert questions(ast.walk(ast.parse(question)))
