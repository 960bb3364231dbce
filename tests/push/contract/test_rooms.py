"""Rooms are few, no circle joins them, and one name stands for one thing (decision 149)."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

PRODUCT = ("common", "owner", "curator", "deploy")
GENERATED = ROOT / "common/wire"
MOST_ROOMS = 12


def _modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            if GENERATED not in path.parents:
                yield path


@pytest.mark.parametrize("side", ["owner", "curator"])
def test_a_side_has_twelve_rooms_at_most(side: str) -> None:
    rooms = {path.relative_to(ROOT / side).parts[0] for path in _modules(side)} - {"__init__.py"}
    assert 0 < len(rooms) <= MOST_ROOMS


@pytest.mark.parametrize("side", PRODUCT)
def test_no_circle_joins_what_lies_in_one_folder(side: str) -> None:
    """Imports within functions count: what is put off is still needed."""
    arrows: dict[Path, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path in _modules(side):
        for target in _imported(path):
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
    classes = (
        (node.name, path)
        for path in _modules(*folders)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert _repeated(classes) == set()


def _repeated(named: Iterable[tuple[str, Path]]) -> set[str]:
    places: dict[str, list[Path]] = defaultdict(list)
    for name, path in named:
        places[name].append(path)
    assert places
    return {name for name, paths in places.items() if len(paths) > 1 and name != "__init__"}


def _imported(path: Path) -> Iterator[Path]:
    """Files of the same side that a file imports, wherever in it."""
    side = path.relative_to(ROOT).parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for module in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
            parts = module.split(".")
            place = ROOT.joinpath(*parts[1:])
            if parts[:2] == ["dppca", side] and place.with_suffix(".py").is_file():
                yield place.with_suffix(".py")


def _shared_folder(one: Path, other: Path) -> Path:
    return next(folder for folder in one.parents if folder in other.parents)
