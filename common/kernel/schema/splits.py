"""A schema's attributes as partitions use them, and the splits of trees of it.

A document has as many as 131,072 splits, so each is read in a step or two: names, labels and
thresholds are looked up, and what rows can still have of an attribute is bits, or an interval.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
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

from dppca.common.kernel.schema.attributes import (
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
from dppca.common.kernel.schema.cells import Cells, encode_numeric


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


class Strict(BaseModel):
    """Part of a document that leaves out what is not said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_serializer(mode="wrap")
    def _without_unsaid(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        if not self.model_fields_set:  # every other node of a tree is such a leaf
            return {}
        return {key: value for key, value in written(self).items() if value or value == 0}


class TreeNode(Strict):
    """A split of a decision tree, or a leaf: ``{}``.

    Attributes
    ----------
    by
        The attribute that splits.
    at_most
        A threshold within the attribute's bounds. Rows whose coded value is at most the threshold's
        go on with the next node, the others with the node after that branch.
    labels
        Rows with one of these labels go on with the next node.
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


Branch = int | tuple[Sequence[int], int, int]
"""Labels that a row can have, a bit each; or ascending codes with the first and the last place."""


@dataclass(frozen=True)
class Public:
    """A schema's attributes in their order: cells is None for labels.

    Each name, label and threshold is looked up in one step, however many splits a document has.
    """

    attributes: tuple[Attribute, ...]
    cells: tuple[Cells | None, ...]
    resolution_bits: int

    @property
    def half(self) -> int:
        """Half of the coded range: codes of a numeric are within -half to half."""
        return 1 << (self.resolution_bits - 1)

    def place(self, name: str) -> int:
        """Return the index of an attribute; raise `ValueError` if there is none."""
        index = self._places.get(name)
        if index is None:
            raise ValueError(f"no attribute is called {name}")
        return index

    @cached_property
    def _places(self) -> dict[str, int]:
        names = [attribute.name for attribute in self.attributes]
        return {name: len(names) - place for place, name in enumerate(reversed(names), 1)}

    @cached_property
    def codes(self) -> tuple[dict[str, int], ...]:
        """The place of each label or level of each attribute; empty for other numerics."""
        return tuple(
            {name: place for place, name in enumerate(_names(each))} for each in self.attributes
        )

    def reach(self, index: int) -> Branch:
        """Return what rows can have of an attribute."""
        if index not in self._reaches:
            self._reaches[index] = self._reach(index)
        return self._reaches[index]

    def _reach(self, index: int) -> Branch:
        attribute = self.attributes[index]
        if not isinstance(attribute, Numeric):
            return (1 << len(attribute.labels)) - 1
        found = find_reach(index, self)
        codes = sorted(found) if isinstance(found, frozenset) else range(found[0], found[1] + 1)
        return codes, 0, len(codes) - 1

    @cached_property
    def _reaches(self) -> dict[int, Branch]:
        return {}

    @cached_property
    def coded_thresholds(self) -> dict[tuple[int, float | str], int]:
        """Thresholds whose coded value is known, by attribute; `code_thresholds` fills it."""
        return {}

    def n_own(self, index: int) -> int:
        """Return the number of an attribute's own cells, or of its labels."""
        cells = self.cells[index]
        return len(list_labels(self.attributes[index]) or ()) if cells is None else cells.n_cells

    def largest(self, index: int) -> int:
        """Return the largest coded integer of a numeric: a missing value's, if it is a level."""
        cells = self.cells[index]
        return self.half + (cells is not None and cells.missing)


def code_thresholds(nodes: Iterable[TreeNode], public: Public) -> None:
    """Code all thresholds of all trees, those of one attribute at a time; others are left out."""
    wanted: dict[int, dict[float | str, float]] = {}
    for node in nodes:
        if node.at_most is not None:
            with suppress(ValueError):  # reading that node says what is wrong
                index = public.place(node.by or "")
                if isinstance(public.attributes[index], Numeric):
                    known = wanted.setdefault(index, {})
                    known[node.at_most] = _read_threshold(index, node.at_most, public)
    for index, found in wanted.items():
        coded = _code(index, np.fromiter(found.values(), np.float64, len(found)), public)
        at = zip(found, coded.tolist(), strict=True)
        public.coded_thresholds.update(((index, value), code) for value, code in at)


@dataclass(slots=True)
class OpenSplit:
    """A split whose second branch has not ended; what its attribute can be ``before`` it."""

    place: int
    index: int
    before: Branch
    other: Branch
    in_second: bool = False


def halves(known: Branch, rule: int | frozenset[int]) -> tuple[Branch, Branch]:
    """Return what rows of each branch can have; `ValueError` where one has no rows."""
    if isinstance(known, int):
        assert isinstance(rule, frozenset)  # noqa: S101 - labels have a set
        bits = bytearray(max(rule) // 8 + 1)
        for code in rule:
            bits[code // 8] |= 1 << code % 8
        mask = int.from_bytes(bits, "little")
        if not known & mask or not known & ~mask:
            raise ValueError(_NO_ROW)
        return known & mask, known & ~mask
    assert isinstance(rule, int)  # noqa: S101 - a numeric has no labels
    codes, least, most = known
    place = bisect_right(codes, rule) - 1
    if not least <= place < most:
        raise ValueError(_NO_ROW)
    return (codes, least, place), (codes, place + 1, most)


_NO_ROW = "no row can reach one of its branches"
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
        raise ValueError(_NO_ROW)
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
        code = public.coded_thresholds.get((index, node.at_most))
        if code is None:
            value = np.array([_read_threshold(index, node.at_most, public)])
            code = int(_code(index, value, public)[0])
        return index, code
    if node.at_most is not None:
        raise ValueError(f"{attribute.name} splits by labels, not at_most a value")
    codes = public.codes[index]
    unknown = [label for label in node.labels if label not in codes]
    if unknown:
        raise ValueError(f"{attribute.name} has no label {unknown[0]}")
    return index, frozenset(codes[label] for label in node.labels)


def _names(attribute: Attribute) -> tuple[str, ...]:
    if isinstance(attribute, Ordinal):
        return attribute.levels
    return () if isinstance(attribute, Numeric) else attribute.labels


def _code(index: int, values: NDArray[np.float64], public: Public) -> NDArray[np.int32]:
    attribute = public.attributes[index]
    assert isinstance(attribute, Numeric)  # noqa: S101 - others have no threshold
    return encode_numeric(attribute, values, 2 * public.half)


def _read_threshold(index: int, threshold: float | str, public: Public) -> float:
    """Return a threshold in the attribute's own unit."""
    attribute = public.attributes[index]
    assert isinstance(attribute, Numeric)  # noqa: S101 - others have no threshold
    if isinstance(attribute, Ordinal):
        level = label_text(threshold)
        place = public.codes[index].get(level)
        if place is None:
            raise ValueError(f"{attribute.name} has no level {level}")
        return float(place)
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
