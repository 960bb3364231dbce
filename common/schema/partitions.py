"""Partitions: tables and trees that put every possible row into exactly one cell.

A study may count the rows in the cells of public partitions, beside products of pairs: of the joint
values of a few attributes, or of the leaves of a decision tree, by the labels of a target. A row is
in one cell of each, so replacing a row changes two cells of a partition by one, however many cells
it has.

The cell of a row depends on the row and the schema alone, by comparisons of integers:

* a label enters by its code;
* a numeric enters a table, and a tree's target, by its own cells (`dppca.common.schema.cells`);
* a numeric with ``cells: K`` enters by K parts of its coded range, of equal width on its scale;
* a numeric enters a split by its coded integer, which is compared with that of the threshold.

A missing value has the coded integer of the middle; with ``missing: level`` it has one above all
others: the last cell of a table, and never at most a threshold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from math import prod
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from dppca.common.schema.attributes import (
    MAX_BINS,
    Attribute,
    Date,
    Label,
    Name,
    Numeric,
    Ordinal,
    check_finite,
    count_days,
    label_text,
    list_labels,
)
from dppca.common.schema.cells import Cells, encode_numeric

MAX_TABLES = 128
MAX_TABLE_ATTRIBUTES = 8
MAX_LEAVES = 1024
MAX_CELLS = 1 << 16
"""Cells of one partition."""
MAX_ALL_CELLS = 1 << 18
"""Cells of all partitions of a schema."""

Codes = NDArray[np.int32]


def _threshold(value: object) -> object:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a number, a date such as 2020-01-31, or a level")  # noqa: TRY004
    return value if isinstance(value, str) else check_finite(float(value))


Threshold = Annotated[
    float | str,
    BeforeValidator(_threshold),
    WithJsonSchema({"type": ["number", "string"]}),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_serializer(mode="wrap")
    def _without_unsaid(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        empty: tuple[object, ...] = (None, [], (), {})
        return {key: value for key, value in written(self).items() if value not in empty}


class TreeNode(_Strict):
    """A split of a decision tree, or a leaf, which says nothing: ``{}``.

    Attributes
    ----------
    by
        The attribute that splits.
    at_most
        A threshold within the attribute's bounds: a number, a date or a level. Rows whose coded
        value is at most the threshold's go on with the next node, the others with the node after
        all of those.
    labels
        For an attribute with labels: rows with one of these go on with the next node.
    """

    by: Name | None = None
    at_most: Threshold | None = None
    labels: Annotated[tuple[Label, ...], Field(max_length=MAX_BINS)] = ()

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        rules = (self.at_most is not None) + bool(self.labels)
        if rules != (self.by is not None):
            raise ValueError("a split has by, and at_most or labels; a leaf is {}")
        return self


class CountedTable(_Strict):
    """One partition: a table of attributes, or a tree with a target.

    Attributes
    ----------
    table
        The attributes of a table; their joint values are its cells.
    cells
        For a table's numerics: a number of cells of equal width on the numeric's scale, in place of
        its own cells. Fewer cells have less noise in all.
    tree
        The nodes of a decision tree, each split followed by all nodes of its first branch and then
        by those of its second one.
    target
        An attribute that does not split the tree: its labels, or its own cells, divide each leaf.
    """

    table: Annotated[tuple[Name, ...], Field(max_length=MAX_TABLE_ATTRIBUTES)] = ()
    cells: dict[Name, Annotated[int, Field(ge=2, le=MAX_BINS)]] = {}
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
class Public:
    """What a schema says of its attributes, in their order: cells is None for labels."""

    attributes: tuple[Attribute, ...]
    cells: tuple[Cells | None, ...]
    resolution_bits: int

    @property
    def half(self) -> int:
        """Half of the coded range: codes of a numeric are within -half to half."""
        return 1 << (self.resolution_bits - 1)

    def place(self, name: str) -> int:
        """Return the index of an attribute; raise `ValueError` if there is none."""
        for index, attribute in enumerate(self.attributes):
            if attribute.name == name:
                return index
        raise ValueError(f"no attribute is called {name}")

    def n_own(self, index: int) -> int:
        """Return the number of an attribute's own cells, or of its labels."""
        cells = self.cells[index]
        return len(list_labels(self.attributes[index]) or ()) if cells is None else cells.n_cells

    def largest(self, index: int) -> int:
        """Return the largest coded integer of a numeric: a missing value's, if it is a level."""
        cells = self.cells[index]
        return self.half + (cells is not None and cells.missing)


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
    # What a row that comes to a node can have: an interval of coded integers, or some labels.
    reach: dict[int, Mapping[int, Reach]] = {0: {}}
    open_splits: list[int] = []
    n_leaves = 0
    for place, node in enumerate(table.tree):
        here = f"node {place + 1}"
        if place not in reach:
            raise ValueError(f"{here} comes after the end of the tree, which is node {place}")
        known = reach.pop(place)
        if node.by is None:
            by.append(-1)
            rules.append(0)
            second[place] = n_leaves
            n_leaves += 1
            if open_splits:
                parent = open_splits.pop()
                second[parent] = place + 1
                reach[place + 1] = reach.pop(-1 - parent)
            continue
        try:
            index, rule = read_split(node, public, target)
            first, other = divide(known.get(index) or find_reach(index, public), rule)
        except ValueError as error:
            raise ValueError(f"{here}: {error}") from error
        by.append(index)
        rules.append(rule)
        reach[place + 1] = {**known, index: first}
        reach[-1 - place] = {**known, index: other}
        open_splits.append(place)
    if reach:
        raise ValueError(f"the tree ends with node {len(by)}, and a branch has no nodes")
    return TreeCells(tuple(by), tuple(rules), tuple(second), target, public.n_own(target))


Reach = tuple[int, ...] | frozenset[int]
"""Coded integers that a row can have: the least and the largest, or all of them."""


def find_reach(index: int, public: Public) -> Reach:
    """Return what rows can have of an attribute."""
    attribute = public.attributes[index]
    if isinstance(attribute, Ordinal):
        places = np.array([*range(len(attribute.levels)), np.nan])
        return frozenset(encode_numeric(attribute, places, 2 * public.half).tolist())
    if isinstance(attribute, Numeric):
        return -public.half, public.largest(index)
    return frozenset(range(len(attribute.labels)))


def divide(known: Reach, rule: int | frozenset[int]) -> tuple[Reach, Reach]:
    """Return what rows of each branch can have; `ValueError` where one has no rows."""
    first: Reach
    other: Reach
    if isinstance(known, frozenset):
        first = rule if isinstance(rule, frozenset) else frozenset(c for c in known if c <= rule)
        first, other = known & first, known - first
        empty = not first or not other
    else:
        assert isinstance(rule, int)  # noqa: S101 - a numeric has no labels
        first, other = (known[0], min(known[1], rule)), (max(known[0], rule + 1), known[1])
        empty = first[0] > first[1] or other[0] > other[1]
    if empty:
        raise ValueError("no row can reach one of its branches")
    return first, other


def read_split(node: TreeNode, public: Public, target: int) -> tuple[int, int | frozenset[int]]:
    """Return the attribute and the rule of a split; `ValueError` if they do not fit the schema."""
    index = public.place(node.by or "")
    attribute = public.attributes[index]
    if index == target:
        raise ValueError("the target cannot split its own tree")
    if isinstance(attribute, Numeric):
        if node.at_most is None:
            raise ValueError(f"{attribute.name} splits at_most a value, not by labels")
        value = np.array([_read_threshold(attribute, node.at_most)])
        return index, int(encode_numeric(attribute, value, 2 * public.half)[0])
    if node.at_most is not None:
        raise ValueError(f"{attribute.name} splits by labels, not at_most a value")
    unknown = [label for label in node.labels if label not in attribute.labels]
    if unknown:
        raise ValueError(f"{attribute.name} has no label {unknown[0]}")
    return index, frozenset(map(attribute.labels.index, node.labels))


def _read_threshold(attribute: Numeric, threshold: float | str) -> float:
    """Return a threshold in the attribute's own unit."""
    if isinstance(attribute, Ordinal):
        level = label_text(threshold)
        if level not in attribute.levels:
            raise ValueError(f"{attribute.name} has no level {level}")
        return float(attribute.levels.index(level))
    if isinstance(attribute, Date):
        try:
            threshold = float(count_days(date.fromisoformat(str(threshold))))
        except ValueError:
            raise ValueError(f"{attribute.name} needs a date such as 2020-01-31") from None
    if isinstance(threshold, str):
        raise ValueError(f"{attribute.name} needs a number")  # noqa: TRY004 - pydantic's
    lower, upper = attribute.bounds
    if not lower <= threshold <= upper:
        raise ValueError(f"at_most is outside of the bounds of {attribute.name}")
    return threshold
