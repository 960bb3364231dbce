"""What the engine on Spark is written with; what it does is tried in `tests/engines`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dppca.owner.engines import spark as module
from dppca.owner.records import spark_sessions, spark_tables

FORBIDDEN = {"rdd", "parallelize", "accumulator", "jdbc", "toLocalIterator", "foreach", "broadcast"}
ALLOWED = {"spark_tables": {"toLocalIterator"}}
"""It streams a table's rows to this machine, and adds nothing up."""


@pytest.mark.parametrize(
    "path", [Path(m.__file__ or "") for m in (module, spark_sessions, spark_tables)], ids=str
)
def test_nothing_but_dataframes_is_used(path: Path) -> None:
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if hasattr(node, "attr")}
    assert used & FORBIDDEN == ALLOWED.get(path.stem, set())
    assert "getOrCreate" in used or "mapInArrow" in used, "this is the code that uses Spark"


def test_functions_for_workers_use_the_kernel_and_nothing_else_of_ours() -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    ours = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)} | {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dppca")
        for alias in node.names
    }
    sent = [
        inner
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef)
    ]
    assert len(sent) == 3
    for function in sent:
        names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        imported = {n.module for n in ast.walk(function) if isinstance(n, ast.ImportFrom)}
        local = {
            a.name for n in ast.walk(function) if isinstance(n, ast.ImportFrom) for a in n.names
        }
        assert names & (ours - local) == set()
        assert imported <= {"dppca.owner.engines.kernel", "pyspark"}
