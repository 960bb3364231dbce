"""Partitions: tables and trees that put every possible row into exactly one cell.

A study may count the rows in the cells of public partitions, beside products of pairs: of the joint
values of a few attributes, or of the leaves of a decision tree, by the labels of a target. A row is
in one cell of each, so replacing a row changes two cells of a partition by one, however many cells
it has.

The cell of a row depends on the row and the schema alone, by comparisons of integers:

* a label enters by its code;
* a numeric enters a table, and a tree's target, by its own cells
  (`dppca.common.kernel.schema.cells`);
* a numeric with ``cells: K`` enters by K parts of its coded range, of equal width on its scale;
* a numeric enters a split by its coded integer, which is compared with that of the threshold.

A missing value has the coded integer of the middle; with ``missing`` it has one above all
others: the last cell of a table, and never at most a threshold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from dppca.common.kernel.documents.stated_fields import WHOLE
from dppca.common.kernel.schema.attributes import MAX_BINS, Name
from dppca.common.kernel.schema.splits import (
    Branch,
    OpenSplit,
    Public,
    Strict,
    TreeNode,
    halves,
    read_split,
)

MAX_TABLES = 128  # and trees of a schema
MAX_TABLE_ATTRIBUTES = 16  # of one table: so many of two labels fill `MAX_CELLS`
MAX_LEAVES = 1024  # of one tree
MAX_CELLS = 1 << 16
"""Cells of one partition."""
MAX_ALL_CELLS = 1 << 18
"""Cells of all partitions of a schema."""

Codes = NDArray[np.int32]


class CountedTable(Strict):
    """One partition: a table of attributes, or a tree with a target.

    Attributes
    ----------
    table
        The attributes of a table; their joint values are its cells.
    cells
        For a table's numerics: a number of cells of equal width on the numeric's scale, not its own
        cells. Fewer cells have less noise in all.
    tree
        Nodes of a decision tree: after each split, all nodes of its first branch, then those of its
        second.
    target
        An attribute that does not split the tree: its labels, or own cells, divide each leaf.
    """

    table: Annotated[tuple[Name, ...], Field(max_length=MAX_TABLE_ATTRIBUTES)] = ()
    cells: dict[Name, Annotated[int, Field(ge=2, le=MAX_BINS), WHOLE]] = {}  # noqa: RUF012 - pydantic copies it
    tree: Annotated[tuple[TreeNode, ...], Field(max_length=2 * MAX_LEAVES - 1)] = ()
    target: Name | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.table) == bool(self.tree) or bool(self.tree) != (self.target is not None):
            raise ValueError("needs table, a list of attributes, or tree and target")
        if len(set(self.table)) < len(self.table):
            raise ValueError("the attributes of a table must differ")
        if set(self.cells) - set(self.table):
            raise ValueError("cells names an attribute that is not in table")
        return self


@dataclass(frozen=True, slots=True)
class RowCodes:
    """Codes of some rows, made by the attribute's index: each of shape (n_rows,), int32.

    ``own`` are codes of labels, or a numeric's own cells; ``coded`` are codes of labels, or a
    numeric's coded integers, with those of missing values.
    """

    own: Callable[[int], Codes]
    coded: Callable[[int], Codes]


@dataclass(frozen=True, slots=True)
class TableCells:
    """The cells of a table; those of its last attribute follow each other.

    ``attributes`` are the indices of its attributes, ``sizes`` the number of parts of each;
    ``coarse`` is that number for a numeric that enters by parts of its coded range, else 0;
    ``half`` is half of the coded range.
    """

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    coarse: tuple[int, ...]
    half: int

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return prod(self.sizes)

    def find(self, codes: RowCodes) -> Codes:
        """Return the cell of each row, shape (n_rows,)."""
        cell: Codes = np.int32(0)  # type: ignore[assignment]
        for index, size, parts in zip(self.attributes, self.sizes, self.coarse, strict=True):
            if parts:  # a missing value's integer, the one above the range, gives the part after
                place = codes.coded(index) + np.int32(self.half)
                part = place * np.int32(parts) // np.int32(2 * self.half + 1)
            else:
                part = codes.own(index)
            cell = cell * np.int32(size) + part
        return cell


@dataclass(frozen=True, slots=True)
class TreeCells:
    """The leaves of a tree by the parts of its target, which follow each other.

    For each node ``by`` is the index of the attribute that splits it, -1 for a leaf, and
    ``at_most`` the largest coded integer that goes on with the next node, or for labels the codes
    that do; ``second`` is the first node of a split's second branch, for a leaf its number.
    ``target`` is the index of the target, ``n_target`` the number of its parts.
    """

    by: tuple[int, ...]
    at_most: tuple[int | frozenset[int], ...]
    second: tuple[int, ...]
    target: int
    n_target: int

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return (len(self.by) + 1) // 2

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.n_leaves * self.n_target

    def find(self, codes: RowCodes) -> Codes:
        """Return the cell of each row, shape (n_rows,)."""
        own = codes.own(self.target)
        leaf = np.empty(len(own), np.int32)
        waiting = [(0, np.arange(len(own)))]
        while waiting:
            node, rows = waiting.pop()
            if self.by[node] < 0:
                leaf[rows] = self.second[node]
                continue
            code, rule = codes.coded(self.by[node])[rows], self.at_most[node]
            first = code <= rule if isinstance(rule, int) else np.isin(code, list(rule))
            waiting.append((self.second[node], rows[~first]))
            waiting.append((node + 1, rows[first]))
        return leaf * np.int32(self.n_target) + own


Partition = TableCells | TreeCells


def make_partition(table: CountedTable, public: Public) -> Partition:
    """Return the cells of a partition; `ValueError` says where the document is at fault."""
    made = _make_tree(table, public) if table.tree else _make_table(table, public)
    if not 2 <= made.n_cells <= MAX_CELLS:
        raise ValueError(f"{made.n_cells} cells; 2 to {MAX_CELLS} are possible")
    return made


def _make_table(table: CountedTable, public: Public) -> TableCells:
    indices = tuple(public.place(name) for name in table.table)
    coarse = tuple(table.cells.get(name, 0) for name in table.table)
    for index, parts in zip(indices, coarse, strict=True):
        if parts and public.cells[index] is None:
            name = public.attributes[index].name
            raise ValueError(f"cells is for numbers and dates, and {name} has labels")
        if parts > 2 * public.half + 1:
            raise ValueError(f"{parts} cells of {2 * public.half + 1} coded values")
    sizes = tuple(
        parts + public.largest(index) - public.half if parts else public.n_own(index)
        for index, parts in zip(indices, coarse, strict=True)
    )
    return TableCells(indices, sizes, coarse, public.half)


def _make_tree(table: CountedTable, public: Public) -> TreeCells:
    assert table.target is not None  # noqa: S101 - the document's validator requires it
    target = public.place(table.target)
    by: list[int] = []
    rules: list[int | frozenset[int]] = []
    second = [0] * len(table.tree)
    # What a row that comes to the next node can have of an attribute: see `Branch`.
    known: dict[int, Branch] = {}
    open_splits: list[OpenSplit] = []
    n_leaves = 0
    for place, node in enumerate(table.tree):
        here = f"node {place + 1}"
        if place and not open_splits:
            raise ValueError(f"{here} comes after the end of the tree, which is node {place}")
        if node.by is None:
            by.append(-1)
            rules.append(0)
            second[place] = n_leaves
            n_leaves += 1
            while open_splits and open_splits[-1].in_second:
                ended = open_splits.pop()
                known[ended.index] = ended.before
            if open_splits:
                parent = open_splits[-1]
                parent.in_second = True
                second[parent.place] = place + 1
                known[parent.index] = parent.other
            continue
        try:
            index, rule = read_split(node, public, target)
            before = known.get(index) or public.reach(index)
            first, other = halves(before, rule)
        except ValueError as error:
            raise ValueError(f"{here}: {error}") from error
        by.append(index)
        rules.append(rule)
        known[index] = first
        open_splits.append(OpenSplit(place, index, before, other))
    if open_splits:
        raise ValueError(f"the tree ends with node {len(by)}, and a branch has no nodes")
    return TreeCells(tuple(by), tuple(rules), tuple(second), target, public.n_own(target))
