"""What an estimate is about: numbers, and labels as indicators, by the names of a schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.noise import Array
from dppca.common.kernel.documents.names import nearest_name
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import ColumnKind, Numeric, Schema
from dppca.common.kernel.schema.attributes import Date, Ordinal, Score, list_labels
from dppca.common.kernel.schema.layout import Layout

_SHOWN = 12  # labels named in a message
Codes = NDArray[np.bool_]
"""Which labels, or cells, of an attribute are meant, shape (K,)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A number, or the indicator of a label, linear in a column: ``offset + factor * coded``.

    ``coded`` is ``sign * column + shift``; ``label`` is the code of an indicator, else None. Rows
    may lack a ``gappy`` number; ``absent`` is the column that says so, None without one.
    """

    name: str
    attribute: int
    label: int | None
    column: int
    sign: float = 1.0
    shift: float = 0.0
    offset: float = 0.0
    factor: float = 1.0
    lower: float = 0.0
    upper: float = 1.0
    gappy: bool = False
    absent: int | None = None

    def coded(self, block: Block) -> Array:
        """Return the vector of ``coded`` in a block, shape (b,)."""
        return self.sign * block.unit(block.place(self.column)) + self.shift * block.unit(0)

    def ends(self, layout: Layout) -> tuple[float, float]:
        """Return the least and the largest value of ``coded`` that a row can have."""
        low, high = -0.5, 0.5
        if layout.unit_ball:
            low, high = -1.0, 1.0
        elif layout.kinds[self.column] is ColumnKind.INDICATOR:
            low, high = 0.0, 1.0
        both = (self.sign * low + self.shift, self.sign * high + self.shift)
        return min(both), max(both)

    def known(self, block: Block) -> Array:
        """Return the vector of the rows that have it; `SettingError` without a column for that."""
        self.require_column()
        one = block.unit(0)
        return one if self.absent is None else one - 2 * block.unit(block.place(self.absent))

    def require_column(self) -> None:
        """Raise `SettingError` if rows may lack it and no column says so."""
        if self.gappy and self.absent is None:
            raise SettingError(
                f"{self.name} may be missing, and the study released no products with that: ask "
                "for its mean; relations need missing: indicator"
            )

    def require_complete(self) -> None:
        """Raise `SettingError` if rows may lack it."""
        if self.gappy:
            raise SettingError(
                f"{self.name} may be missing, and squares of the rows that have it are not "
                "released: ask for its mean by group, take it as a regressor, or make a study of "
                "the rows that have it"
            )

    def require_everywhere(self) -> None:
        """Raise `SettingError` if rows may lack it, whatever the study says of that."""
        if self.gappy or (self.label is None and self.absent is not None):
            raise SettingError(
                f"{self.name} may be missing, and a release does not know what such rows would "
                "have: `ols` takes it as a regressor"
            )


class Names:
    """Attributes, labels and variables of a schema by their names."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self._layout = schema, schema.layout

    @cached_property
    def labels(self) -> tuple[tuple[str, ...] | None, ...]:
        """Labels of each attribute, or names of a numeric's cells; None for unit-ball rows."""
        return tuple(
            list_labels(each) or (None if cells is None else cells.names)
            for each, cells in zip(self.schema.attributes, self.schema.cells, strict=True)
        )

    def attribute(self, name: str) -> int:
        """Return the index of an attribute; `SettingError` if there is none."""
        try:
            return self.schema.find_index(name)
        except KeyError:
            raise self._unknown(name) from None

    def label(self, attribute: int, label: str) -> int:
        """Return the code of a label; `SettingError` if the attribute has none such."""
        labels, name = self.labels[attribute] or (), self.schema.attributes[attribute].name
        if label not in labels:
            raise SettingError(f"{name} has no label {label}; it has: {shorten_list(labels)}")
        return labels.index(label)

    def find(self, name: str) -> tuple[int, int | None]:
        """Return attribute and code of ``attribute`` or ``attribute=label``."""
        found = self.place(name)
        if found is None:
            raise self._unknown(name)
        return found

    def place(self, name: str) -> tuple[int, int | None] | None:
        """Return attribute and code of a name; None if no variable has it."""
        for place, each in enumerate(self.schema.attributes):
            if each.name == name:
                return place, None
        for place, (each, labels) in enumerate(
            zip(self.schema.attributes, self.labels, strict=True)
        ):
            for code, label in enumerate(labels or ()):
                if f"{each.name}={label}" == name:
                    return place, code
        return None

    def left_out(self, attribute: int, named: Collection[int | None]) -> str | None:
        """Return the only label of an attribute whose code is not named; None if it is not one."""
        labels = self.labels[attribute] or ()
        rest = [label for code, label in enumerate(labels) if code not in named]
        return rest[0] if len(rest) == 1 else None

    def terms(self, names: Sequence[str]) -> list[tuple[str | None, str | None, str | None]]:
        """Return attribute, label and the only label that the names leave out, of each name."""
        found = [self.place(each) for each in names]
        named = defaultdict[int, set[int | None]](set)
        for attribute, code in (place for place in found if place is not None):
            named[attribute].add(code)
        terms = list[tuple[str | None, str | None, str | None]]()
        for place in found:
            if place is None:
                terms.append((None, None, None))
                continue
            attribute, code = place
            name = self.schema.attributes[attribute].name
            if code is None:
                terms.append((name, None, None))
                continue
            label = (self.labels[attribute] or ())[code]
            terms.append((name, label, self.left_out(attribute, named[attribute])))
        return terms

    def variable(self, name: str) -> Variable:
        """Return the variable of ``age``, ``sex`` (a binary: its second label) or ``sex=Male``."""
        attribute, label = self.find(name)
        kind = self.kind(attribute)
        if kind is ColumnKind.BINARY and label is None:
            label = 1
        if label is not None:
            return self.indicator(attribute, label)
        if kind is ColumnKind.INDICATOR:
            labels = ", ".join(f"{name}={each}" for each in (self.labels[attribute] or ())[:3])
            raise SettingError(f"{name} is not a number: name one label, such as {labels}")
        return self._number(attribute)

    def indicator(self, attribute: int, label: int) -> Variable:
        """Return the indicator of a label; `SettingError` if products do not have it."""
        name = f"{self.schema.attributes[attribute].name}={(self.labels[attribute] or ())[label]}"
        first, kind = self._layout.groups[attribute][0], self.kind(attribute)
        if kind is ColumnKind.NUMERIC:
            absent = self._absent(attribute)
            if absent is not None and label + 1 == len(self.labels[attribute] or ()):
                return Variable(name, attribute, label, absent, sign=2.0)
            raise SettingError(f"{name}: this study released no products with its cells")
        if kind is ColumnKind.INDICATOR:
            return Variable(name, attribute, label, first + label)
        return Variable(name, attribute, label, first, sign=2.0 * label - 1, shift=0.5)

    def kind(self, attribute: int) -> ColumnKind:
        """Return the kind of an attribute's columns."""
        return self._layout.attribute_kinds[attribute]

    def vector(self, block: Block, attribute: int, codes: Codes) -> Array | None:
        """Return the vector of an event, one of some labels; None if products do not have it."""
        kind, vector = self.kind(attribute), np.zeros(len(block.columns))
        place = block.place(self._layout.groups[attribute][0])
        if kind is ColumnKind.NUMERIC:
            if self._absent(attribute) is None or np.any(codes[:-1] != codes[0]):
                return None
            vector[0], vector[place] = codes[0], 2 * (float(codes[-1]) - float(codes[0]))
            return vector
        if kind is ColumnKind.INDICATOR:
            vector[place + np.flatnonzero(codes)] = 1
        else:
            vector[place], vector[0] = float(codes[1]) - float(codes[0]), codes.sum() / 2
        return vector

    def meaning(self, attribute: int) -> str:
        """Return the sentence that says what values of an attribute an estimate is about."""
        each = self.schema.attributes[attribute]
        if not isinstance(each, Numeric):
            label = each.labels[each.missing_code]
            return f"{each.name}: unknown and missing labels count as {label}"
        if each.scale is not None:
            return f"{each.name}: of rows scaled into the unit ball, a missing value at its centre"
        lower, upper = (each.format_value(bound) for bound in each.bounds)
        what = f"{each.name}: below {lower} counts as {lower}, above {upper} as {upper}, "
        middle = each.format_value(each.middle)
        what += (
            f"a missing value as {middle}" if each.missing is None else "missing values are not in"
        )
        if isinstance(each, Date):
            what += "; in days since 1970-01-01"
        elif isinstance(each, Ordinal):
            what += "; in places of its labels, from 0"
        elif each.score is Score.LOG:
            what += "; in coordinates of its logarithmic scale, from -0.5 to 0.5"
        return what

    def _absent(self, attribute: int) -> int | None:
        first = self._layout.groups[attribute][0]
        return first if self._layout.kinds[first] is ColumnKind.MISSING else None

    def _number(self, attribute: int) -> Variable:
        each, column = self.schema.attributes[attribute], self._layout.groups[attribute][1] - 1
        assert isinstance(each, Numeric)  # noqa: S101 - others have labels
        if each.centre is not None and each.scale is not None:
            ends = (each.centre - each.scale, each.centre + each.scale)
            return Variable(
                each.name, attribute, None, column, 1.0, 0.0, each.centre, each.scale, *ends
            )
        gaps = (each.missing is not None, self._absent(attribute))
        if each.score is Score.LOG:
            return Variable(each.name, attribute, None, column, 1, 0, 0, 1, -0.5, 0.5, *gaps)
        lower, upper = each.bounds
        middle, width = lower + (upper - lower) / 2, upper - lower
        units = (middle, width, lower, upper)
        return Variable(each.name, attribute, None, column, 1.0, 0.0, *units, *gaps)

    def _unknown(self, name: str) -> SettingError:
        names = [each.name for each in self.schema.attributes]
        every = [
            f"{attribute}={label}"
            for attribute, labels in zip(names, self.labels, strict=True)
            for label in labels or ()
        ]
        near = nearest_name(name, [*names, *every])
        known = f"; it has: {shorten_list(names)}"
        meant = known if near is None else f"; {near} may be meant"
        return SettingError(f"the study has no attribute or label {name}{meant}")


def shorten_list(names: Sequence[str]) -> str:
    """Return names in one line, the first few of many."""
    return ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)
