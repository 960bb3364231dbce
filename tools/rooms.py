"""Rooms of the product's folders, and the arrows between them, as the imports draw them.

::

    python -m tools.rooms                        common, its kernel, owner, curator, simulation
    python -m tools.rooms owner/commands         another folder

A room is a module or folder directly in a folder; an arrow means "imports", within functions, too;
a floor is as high as the longest way down. Generated code is no room.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tools.markdown import ROOT
from tools.syntax import nodes

FOLDERS = (
    "common",
    "common/kernel",
    "common/analysis",
    "owner",
    "curator",
    "deploy/simulation",
)
GENERATED = ROOT / "common/wire"


@dataclass(frozen=True, slots=True)
class Plan:
    """Rooms of a folder: for each, the rooms that it imports; and the lines of each."""

    arrows: Mapping[str, frozenset[str]]
    lines: Mapping[str, int]

    def floors(self) -> Mapping[str, int]:
        """Floor of each room, from 0; `graphlib.CycleError` where rooms stand in a circle."""
        floors: dict[str, int] = {}
        for room in TopologicalSorter(self.arrows).static_order():
            below = (floors[each] for each in self.arrows.get(room, ()))
            floors[room] = 1 + max(below, default=-1)
        return floors

    @property
    def n_arrows(self) -> int:
        """Number of arrows."""
        return sum(map(len, self.arrows.values()))


def draw(folder: Path) -> Plan:
    """Return the plan of a folder below the root."""
    arrows: dict[str, set[str]] = defaultdict(set)
    lines: dict[str, int] = defaultdict(int)
    for path in modules(folder):
        room = _room(folder, path)
        if room == "__init__":
            continue
        lines[room] += len(path.read_text(encoding="utf-8").splitlines())
        for target in imported(path):
            if folder in target.parents and GENERATED not in target.parents:
                arrows[room].add(_room(folder, target))
        arrows[room] -= {room, "__init__"}
    return Plan({room: frozenset(arrows[room]) for room in lines}, dict(lines))


def modules(folder: Path) -> Iterator[Path]:
    """Yield the product's modules in a folder and below."""
    for path in sorted(folder.rglob("*.py")):
        if GENERATED not in path.parents:
            yield path


@cache
def imported(path: Path) -> frozenset[Path]:
    """Return the files of the product that a file imports, wherever in it."""
    return frozenset(_imported(path))


def _imported(path: Path) -> Iterator[Path]:
    for node in nodes(path):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        for module in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
            top, *parts = module.split(".")
            place = ROOT.joinpath(*parts)
            if top == "dppca" and parts and place.with_suffix(".py").is_file():
                yield place.with_suffix(".py")
            elif top == "dppca" and parts and (place / "__init__.py").is_file():
                yield place / "__init__.py"


def describe(name: str) -> str:
    """Return a folder's rooms, floor by floor from the top, and its counts."""
    plan = draw(ROOT / name)
    floors = plan.floors()
    n, top = len(floors), max(floors.values())
    possible = n * (n - 1) // 2
    text = [f"{name}: {n} rooms, {top + 1} floors, {plan.n_arrows} of {possible} arrows"]
    for floor in range(top, -1, -1):
        here = sorted(room for room in floors if floors[room] == floor)
        text.append(f"  {floor}  " + ", ".join(f"{room} ({plan.lines[room]:,})" for room in here))
    return "\n".join(text)


def _room(folder: Path, path: Path) -> str:
    return path.relative_to(folder).parts[0].removesuffix(".py")


if __name__ == "__main__":
    for each in sys.argv[1:] or FOLDERS:
        sys.stdout.write(f"{describe(each)}\n")
