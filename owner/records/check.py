"""Data against schema: every fault at once, by attribute and row number, never a value.

The release path mends every fault by a public rule, drops nothing and says nothing. This report
is where the owner learns what was mended. It is `site-only`: it is computed from raw rows, so
whoever sees it learns about them, and bounds or categories changed because of it are a choice
made from data, outside the guarantee.

A missing value is a fault unless the attribute says what a missing value is taken for
(``missing:``); then it is counted and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from common.errors import SettingError
from common.privacy.labels import Label
from common.schema import Attribute, Column, Numeric, Schema, find_faults
from owner.records.columns import NOT_A_NUMBER
from owner.records.sources import Malformed
from owner.records.table import Table

WARNING = (
    "These counts are site-only: do not send them, and do not choose bounds or categories by them; "
    "a choice made from data is outside the privacy guarantee."
)


class FaultKind(StrEnum):
    """What can be wrong with a value."""

    MISSING = "missing"
    """Null, empty or NaN."""
    TEXT = "text"
    """No number in a numeric column."""
    INFINITE = "infinite"
    """A number that is not finite."""
    UNKNOWN = "unknown"
    """A label that the attribute does not list."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """A number below the lower or above the upper bound."""


@dataclass(frozen=True, slots=True)
class Found:
    """One kind of fault in one attribute: how many values, and the first rows they are in."""

    count: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttributeReport:
    """What is wrong with one attribute; kinds that do not occur have no entry.

    Attributes
    ----------
    missing_allowed
        The attribute says what a missing value is taken for, so it is no fault.
    """

    name: str
    missing_allowed: bool
    found: Mapping[FaultKind, Found]

    @property
    def faultless(self) -> bool:
        """Whether coding has nothing to mend but missing values that the schema provides for."""
        return all(kind is FaultKind.MISSING and self.missing_allowed for kind in self.found)


@dataclass(frozen=True, slots=True)
class TargetReport:
    """Whether a model that stays at this site could learn an attribute: two labels must occur."""

    name: str
    n_labels: int
    n_occurring: int

    @property
    def trainable(self) -> bool:
        """Whether there is something to learn."""
        return self.n_occurring > 1


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What is wrong with a table.

    Attributes
    ----------
    n_rows
        Rows read. Row numbers count data rows: the first after the header is row 1.
    limit
        Row numbers given at most, per attribute and kind.
    malformed
        Rows of a CSV file with a wrong number of fields.
    extra_columns
        Not read; no fault.
    target
        Where one was asked about; no fault either way.
    """

    n_rows: int
    limit: int
    attributes: tuple[AttributeReport, ...]
    malformed: Found
    extra_columns: tuple[str, ...]
    target: TargetReport | None = None
    label: Label = Label.SITE_ONLY

    @property
    def faultless(self) -> bool:
        """Whether every row conforms to the schema."""
        return not self.malformed.count and all(a.faultless for a in self.attributes)

    def to_document(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "label": self.label.value,
            "warning": WARNING,
            "faultless": self.faultless,
            "rows": self.n_rows,
            "row_numbers": f"data rows from 1 (the header is not counted), first {self.limit}",
            "extra_columns": list(self.extra_columns),
            "malformed_rows": _document(self.malformed),
            "target": None
            if self.target is None
            else {
                "name": self.target.name,
                "labels": self.target.n_labels,
                "occurring": self.target.n_occurring,
                "trainable": self.target.trainable,
            },
            "attributes": {
                attribute.name: {
                    "faultless": attribute.faultless,
                    "missing_allowed": attribute.missing_allowed,
                    **{kind.value: _document(found) for kind, found in attribute.found.items()},
                }
                for attribute in self.attributes
            },
        }


def check_table(
    table: Table,
    schema: Schema,
    *,
    limit: int = 20,
    target: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> CheckReport:
    """Read the whole table and report every fault in it.

    Parameters
    ----------
    limit
        Row numbers given at most, per attribute and kind.
    target
        Say how many of this attribute's labels occur, too.
    progress
        Called after each batch with the number of rows in it.

    Raises
    ------
    DataError
        The file is damaged.
    SettingError
        The target is no attribute with labels.
    """
    labels = None if target is None else _labels_of(schema, target)
    occurring: set[int] = set()
    names = [attribute.name for attribute in schema.attributes]
    found: dict[str, dict[FaultKind, Found]] = {name: {} for name in names}
    n_rows = 0
    for columns in table.batches():
        faults = find_faults(schema, columns)
        for attribute, column in zip(schema.attributes, columns, strict=True):
            fault = faults[attribute.name]
            masks = {
                FaultKind.MISSING: fault.missing,
                **_kinds_of_invalid(attribute, column, fault.invalid),
                FaultKind.OUT_OF_BOUNDS: fault.out,
            }
            for kind, mask in masks.items():
                if mask.any():
                    earlier = found[attribute.name].get(kind, Found(0, ()))
                    found[attribute.name][kind] = _extend(earlier, mask, n_rows, limit)
        if target is not None and labels is not None:
            codes = np.unique(columns[schema.index_of(target)])
            occurring |= {int(code) for code in codes if 0 <= code < len(labels)}
        n_rows += len(columns[0])
        if progress is not None:
            progress(len(columns[0]))
    return CheckReport(
        n_rows=n_rows,
        limit=limit,
        attributes=tuple(
            AttributeReport(a.name, _allows_missing(a), found[a.name])
            for a in schema.attributes
            if a.name not in table.absent
        ),
        malformed=_first(table.malformed, limit),
        extra_columns=table.extra_columns,
        target=None
        if target is None or labels is None
        else TargetReport(target, len(labels), len(occurring)),
    )


def _labels_of(schema: Schema, target: str) -> tuple[str, ...]:
    attribute = next((a for a in schema.attributes if a.name == target), None)
    if attribute is None or isinstance(attribute, Numeric):
        message = f"{target} is no binary or categorical attribute of the study"
        raise SettingError(message)
    return attribute.labels


def _kinds_of_invalid(
    attribute: Attribute, column: Column, invalid: NDArray[np.bool_]
) -> dict[FaultKind, NDArray[np.bool_]]:
    if not isinstance(attribute, Numeric):
        return {FaultKind.UNKNOWN: invalid}
    text = column == NOT_A_NUMBER
    return {FaultKind.TEXT: invalid & text, FaultKind.INFINITE: invalid & ~text}


def _extend(earlier: Found, mask: NDArray[np.bool_], before: int, limit: int) -> Found:
    room = limit - len(earlier.rows)
    rows = tuple(int(row) + before + 1 for row in np.flatnonzero(mask)[:room])
    return Found(earlier.count + int(mask.sum()), earlier.rows + rows)


def _allows_missing(attribute: Attribute) -> bool:
    return not isinstance(attribute, Numeric) and attribute.missing is not None


def _first(malformed: Malformed, limit: int) -> Found:
    return Found(malformed.count, malformed.rows[:limit])


def _document(found: Found) -> dict[str, object]:
    return {"count": found.count, "rows": list(found.rows)}
