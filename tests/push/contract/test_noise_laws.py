"""Nobody asks which law a release's noise has: what depends on it is a method of the law."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from dppca.common.kernel.privacy.laws import LAWS
from tests.support.checkout import ROOT
from tools.syntax import nodes

SAYS_WHAT_LAWS_ARE = {"common/kernel/privacy/laws.py", "common/kernel/study.py"}
CLASSES = {law.__name__ for law in LAWS.values()} | {"LaplacePrivacy", "GaussianPrivacy"}


def product() -> Iterator[Path]:
    for room in ("common", "owner", "curator", "deploy"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if str(path.relative_to(ROOT)) not in SAYS_WHAT_LAWS_ARE:
                yield path


def names_a_law(node: ast.expr) -> bool:
    """Whether an expression is the name or the class of one law, or holds it."""
    return any(
        (isinstance(each, ast.Constant) and each.value in LAWS)
        or (isinstance(each, ast.Name) and each.id in CLASSES)
        or (isinstance(each, ast.Attribute) and each.attr in CLASSES)
        for each in ast.walk(node)
    )


def questions(source: Iterable[ast.AST]) -> list[int]:
    """Lines on which a law is asked for by name, by type, or by the number that only it has."""
    found = []
    for node in source:
        match node:
            case ast.Compare(left=left, comparators=others):
                asks = any(map(names_a_law, (left, *others)))
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "getattr" | "hasattr")):
                asks = any(map(names_a_law, node.args)) or any(
                    isinstance(each, ast.Constant) and each.value in ("scale", "variance")
                    for each in node.args[1:]
                )
            case ast.match_case(pattern=pattern):
                inside = (each for each in ast.walk(pattern) if isinstance(each, ast.expr))
                asks = any(map(names_a_law, inside))
            case ast.Dict(keys=keys):
                asks = any(key is not None and names_a_law(key) for key in keys)
            case ast.Attribute(value=ast.Attribute(attr="law"), attr="scale" | "variance"):
                asks = True
            case _:
                asks = False
        if asks:
            found.append(getattr(node, "lineno", 0))
    return found


def test_no_module_asks_which_law_it_has() -> None:
    asking = {
        str(path.relative_to(ROOT)): lines
        for path in product()
        if (lines := questions(nodes(path)))
    }
    assert not asking
