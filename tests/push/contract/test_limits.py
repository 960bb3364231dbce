"""All limits stand on one page, by room; each amount in the code says its unit and why it is so."""

import ast

import pytest
from typing_extensions import TypeIs

from tools.limits import SIDES, Limit, list_limits, page
from tools.markdown import ROOT

LIMITS = list_limits()


@pytest.mark.parametrize("limit", LIMITS, ids=lambda each: f"{each.module}-{each.name}")
def test_each_limit_has_a_reason_and_stands_on_the_page(limit: Limit) -> None:
    assert limit.reason
    assert f"| `{limit.name}` | `{limit.module}` | {limit.value} |" in page()


def test_a_limit_is_shown_as_a_number_and_several_of_one_line_each() -> None:
    shown = {(each.module, each.name): each.value for each in LIMITS}
    assert shown["common/kernel/schema/document", "MAX_COLUMNS"] == "8,192"
    assert shown["common/kernel/documents/stated_fields", "MAX_UNIT"] == "32"
    assert shown["common/kernel/privacy/noise/sampler", "LARGEST_SIGMA_SQUARED"] == (
        "`LARGEST_SCALE ** 2`"
    )


def is_amount(value: ast.expr | None) -> bool:
    """Whether a value is a number, a tuple of them, or computed of numbers alone."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return is_amount(operand)
        case ast.BinOp(left=left, right=right):
            return is_amount(left) and is_amount(right)
        case ast.Tuple(elts=[_, *_] as parts):
            return all(map(is_amount, parts))
        case ast.Call(func=ast.Name(id="Decimal" | "Fraction" | "timedelta")):
            return True
    return False


def is_constant(node: ast.stmt) -> TypeIs[ast.Assign | ast.AnnAssign]:
    """Whether a statement gives a value to names in capitals."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return False
    names = node.targets if isinstance(node, ast.Assign) else [node.target]
    return all(ast.unparse(each).isupper() for each in names)


def find_unexplained(text: str) -> tuple[int, list[str]]:
    """Number of amounts at the top of a module, and those that no words stand beside.

    Words are a comment on the line, one above the amounts that follow line by line, or a text
    directly below them.
    """
    lines, count, found = text.splitlines(), 0, list[str]()
    # Amounts that follow line by line and have no words yet; the last of these lines.
    run, end, is_said = list[str](), -1, False
    for node in [*ast.parse(text).body, ast.Pass(lineno=len(lines) + 2)]:
        if is_constant(node) and is_amount(node.value):
            if node.lineno != end + 1:
                found, run = found + run, []
                is_said = any(each[:1] == "#" for each in lines[node.lineno - 2 : node.lineno - 1])
            own = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            run += [] if is_said or "#" in own else [own]
            count, end = count + 1, node.end_lineno or node.lineno
        elif isinstance(node, ast.Expr) and node.lineno == end + 1:
            run = []
        else:
            found, run, end = found + run, [], -1
    return count, found


def test_every_amount_at_the_top_of_a_module_has_words() -> None:
    paths = [path for side in SIDES for path in sorted((ROOT / side).rglob("*.py"))]
    ours = {path: find_unexplained(path.read_text()) for path in paths if "wire" not in path.parts}
    assert sum(count for count, _ in ours.values()) > 600
    assert not {str(path.relative_to(ROOT)): left for path, (_, left) in ours.items() if left}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("A = 1  # s\nB = -2.5\n", ["B = -2.5"]),
        ("A = 1\nB: Final = 1 << 3\n'''Both in bytes.'''\n", []),
        ("A = 1\n\nB = 2\n'''Of B alone.'''\n", ["A = 1"]),
        ("# Places.\nA, B = 1, 2\nC = 3\n\nD = Decimal('0.1')\n", ["D = Decimal('0.1')"]),
        ("NAME = 'x'\nIS = True\nA = len(NAME)\ncount = 0\n", []),
    ],
)
def test_words_are_on_the_line_above_several_or_below(text: str, left: list[str]) -> None:
    assert find_unexplained(text)[1] == left
