"""Rooms are few, no circle joins them, and one name stands for one thing (decision 149)."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tools.rooms import draw, imported, modules
from tools.syntax import parse

PRODUCT = ("common", "owner", "curator", "deploy")
MOST_ROOMS = 12
SEEN_FROM_BOTH_SIDES = {"ContributionRecord"}
"""One thing, of which each side sees another part: one name, instead of a synonym for each side."""


MOST_REPEATED = 40
"""Names that functions of several modules share: a new function gets a name of its own."""


@pytest.mark.parametrize("side", ["owner", "curator"])
def test_a_side_has_twelve_rooms_at_most(side: str) -> None:
    assert 0 < len(draw(ROOT / side).lines) <= MOST_ROOMS


def test_what_both_sides_share_is_seven_rooms_on_four_floors() -> None:
    plan = draw(ROOT / "common")
    assert plan.lines.keys() == {
        *("kernel", "analysis", "transport", "shell", "papers", "pages", "verification"),
    }
    assert max(plan.floors().values()) < 4
    assert plan.n_arrows <= 12
    assert plan.arrows["kernel"] == frozenset()


@pytest.mark.parametrize("side", PRODUCT)
def test_no_circle_joins_what_lies_in_one_folder(side: str) -> None:
    """Imports within functions count: what is put off is still needed."""
    arrows: dict[Path, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in modules(ROOT / side):
        for target in imported(path):
            if ROOT / side not in target.parents:
                continue
            shared = _shared_folder(path, target)
            one, other = (each.relative_to(shared).parts[0] for each in (path, target))
            if one.removesuffix(".py") != other.removesuffix(".py"):
                arrows[shared][one].add(other)
    assert arrows
    for folder, graph in arrows.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"{folder.relative_to(ROOT)}: {error.args[1]}")


@pytest.mark.parametrize("folders", [(*PRODUCT, "benchmarks", "tools"), ("tests/support",)])
def test_no_two_public_classes_have_one_name(folders: tuple[str, ...]) -> None:
    """Sides do not import each other, so a thing seen from both may have one class at each."""
    classes = (
        (_qualified(node.name, path), path)
        for folder in folders
        for path in modules(ROOT / folder)
        for node in parse(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert _repeated(classes) == set()


def test_few_public_functions_have_the_name_of_another() -> None:
    """Commands are apart: people who type them give them their names."""
    functions = (
        (node.name, path)
        for folder in PRODUCT
        for path in modules(ROOT / folder)
        for node in parse(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not any("command" in ast.unparse(each) for each in node.decorator_list)
    )
    assert len(_repeated(functions)) <= MOST_REPEATED


def _qualified(name: str, path: Path) -> str:
    side = path.relative_to(ROOT).parts[0]
    return f"{side}:{name}" if name in SEEN_FROM_BOTH_SIDES else name


def _repeated(named: Iterable[tuple[str, Path]]) -> set[str]:
    places: dict[str, list[Path]] = defaultdict(list)
    for name, path in named:
        places[name].append(path)
    assert places
    return {name for name, paths in places.items() if len(paths) > 1 and name != "__init__"}


def _shared_folder(one: Path, other: Path) -> Path:
    return next(folder for folder in one.parents if folder in other.parents)
