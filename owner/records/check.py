"""Check of data against a schema: every fault at once, by attribute and row number.

No value is told, but one that most of those out of bounds have, or few that share these: they may
be codes for missing.

The release path replaces every fault by a public rule, drops nothing and reports nothing.
`FaultCounts` counts the replacements for `check` and for every page that shows them, so there is
one way of counting. `dppca.owner.records.faults` defines the counts.

A quick test comes first: a batch whose smallest and largest value are within the bounds has no
fault, and if both are finite every value is (NaN propagates into both). Only an attribute that
fails it is tested value by value.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import (
    Attribute,
    Binary,
    Categorical,
    Column,
    Numeric,
    Schema,
    find_attribute_faults,
    known_labels,
)
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.kernel.schema.columns import cell_texts
from dppca.common.kernel.schema.texts import NOT_A_NUMBER
from dppca.common.shell.repeated_rows import find_repeating
from dppca.owner.records.date_forms import ISO
from dppca.owner.records.faults import (
    AttributeReport,
    CellOutcome,
    CheckReport,
    FaultKind,
    KeyReport,
    Outcomes,
    TargetReport,
    coded_as,
    form_of,
)
from dppca.owner.records.keys import KeyCounts
from dppca.owner.records.mapping_words import describe_mapping
from dppca.owner.records.remarks import Remarks
from dppca.owner.records.repeats import Repeats, value_text
from dppca.owner.records.source_facts import FaultCount, SourceFacts
from dppca.owner.records.table import Table, require_counted, rows_at_once

Masks = Mapping[str, Mapping[FaultKind, NDArray[np.bool_]]]
"""Rows at fault of a batch, by attribute and kind."""


class FaultCounts:
    """Counts faults batch by batch; several threads may add.

    Row numbers are right only if batches come in their order: with ``limit`` 0 there are none.
    """

    def __init__(self, schema: Schema, *, limit: int = 0, target: str | None = None) -> None:
        self._schema, self._limit = schema, limit
        self._target = None if target is None else _labelled(schema, target)
        self._found: dict[str, dict[FaultKind, FaultCount]] = {
            a.name: {} for a in schema.attributes
        }
        self._remarks = {a.name: Remarks(a) for a in schema.attributes}
        self._out = {a.name: Repeats() for a in schema.attributes if isinstance(a, Numeric)}
        self._outcomes: dict[str, Counter[CellOutcome]] = {}
        self._occurring: set[int] = set()
        self._keys = KeyCounts()
        self._n_rows = 0
        self._lock = Lock()

    def add(
        self,
        columns: Sequence[Column],
        cells: Mapping[str, pa.Array] = MappingProxyType({}),
        keys: pa.Array | None = None,
        *,
        outcomes: Outcomes = MappingProxyType({}),
    ) -> Masks:
        """Count a batch of columns as `encode` takes them; infinities are counted separately.

        ``cells`` are the arrays that they were made of, by attribute, for remarks on them; ``keys``
        tell the people of these rows apart; ``outcomes`` says what a mapping made of cells. Return
        masks of the rows at fault, by attribute and
        kind; a sound attribute has no entry.
        """
        if keys is not None:
            self._keys.add(keys)
        masks = {
            attribute.name: kinds
            for attribute, column in zip(self._schema.attributes, columns, strict=True)
            if (kinds := _masks(attribute, column, cells.get(attribute.name)))
        }
        remarks = {
            attribute.name: self._remarks[attribute.name].of(
                cells[attribute.name],
                column,
                masks.get(attribute.name, {}).get(FaultKind.MISSING),
            )
            for attribute, column in zip(self._schema.attributes, columns, strict=True)
            if attribute.name in cells
        }
        with self._lock:
            for name, kinds in masks.items():
                for kind, mask in kinds.items():
                    if mask.any():
                        earlier = self._found[name].get(kind, FaultCount())
                        rows = np.flatnonzero(mask) + self._n_rows + 1
                        self._found[name][kind] = earlier.extended(rows.tolist(), self._limit)
            for name, each in remarks.items():
                self._remarks[name].merge(each.to_document())
            self._add_outcomes(outcomes)
            for attribute, column in zip(self._schema.attributes, columns, strict=True):
                out = masks.get(attribute.name, {}).get(FaultKind.OUT_OF_BOUNDS)
                if out is not None and out.any():
                    self._out[attribute.name].add(np.asarray(column[out], np.float64))
            if self._target is not None:
                codes = known_labels(
                    self._target, columns[self._schema.find_index(self._target.name)]
                )
                self._occurring |= {int(code) for code in np.unique(codes) if code >= 0}
            self._n_rows += len(columns[0])
        return masks

    def _add_outcomes(self, outcomes: Outcomes) -> None:
        for name, counts in outcomes.items():
            self._outcomes.setdefault(name, Counter()).update(counts)

    def add_keys(self, table: Table) -> None:
        """Count the table's keys in a pass of their own, where others added its pinned rows."""
        for keys in table.keys() if table.key else ():
            self._keys.add(keys)

    def to_json(self) -> str:
        """Counts so far, for `merge`.

        Of cells they hold words for missing, times of a day, and values out of bounds.
        """
        counts = {
            name: {kind.value: [count.count, count.rows] for kind, count in kinds.items()}
            for name, kinds in self._found.items()
            if kinds
        }
        remarks = {name: each.to_document() for name, each in self._remarks.items()}
        whole = {"rows": self._n_rows, "found": counts, "occurring": sorted(self._occurring)}
        out = {name: each.to_document() for name, each in self._out.items()}
        return json.dumps({**whole, "remarks": remarks, "out": out, "outcomes": self._outcomes})

    def merge(self, text: str, *, first_row: int) -> None:
        """Add counts from `to_json`, for rows that follow ``first_row``.

        Parts may come in any order: the lowest row numbers are kept. Raise `ValueError`, `KeyError`
        or `TypeError` for malformed text.
        """
        document = json.loads(text)
        n_rows, occurring = int(document["rows"]), {int(code) for code in document["occurring"]}
        outcomes = {
            name: {CellOutcome(kind): int(count) for kind, count in counts.items()}
            for name, counts in document["outcomes"].items()
        }
        additions = [
            (self._found[name], FaultKind(kind), int(count), [first_row + int(row) for row in rows])
            for name, kinds in document["found"].items()
            for kind, (count, rows) in kinds.items()
        ]
        with self._lock:
            for kinds, kind, count, rows in additions:
                earlier = kinds.get(kind, FaultCount())
                kept = sorted([*earlier.rows, *rows])[: self._limit]
                kinds[kind] = FaultCount(earlier.count + count, tuple(kept))
            for name, remarks in document["remarks"].items():
                self._remarks[name].merge(remarks)
            self._add_outcomes(outcomes)
            for name, (total, values) in document["out"].items():
                self._out[name].merge(int(total), ((float(v), int(n)) for v, n in values))
            self._occurring |= occurring
            self._n_rows += n_rows

    def report(self, table: Table | None = None) -> CheckReport:
        """Report of all batches; for a table, with the faults found when it was opened.

        Raise `DataError` if the table's keys were not counted of as many rows as were added.
        """
        target, parts = self._target, () if table is None else table.source.parts
        facts = SourceFacts() if table is None else table.source.facts
        return CheckReport(
            rows=self._n_rows,
            limit=self._limit,
            attributes={
                a.name: AttributeReport(
                    _allows_missing(a),
                    coded_as(a),
                    form_of(a, ISO if table is None else table.dates),
                    self._found[a.name],
                    **self._remarks[a.name].report(),
                    commonest_out=self._commonest_out(a),
                    value_labels={} if table is None else _value_labels(a, table),
                    outcomes=dict(self._outcomes.get(a.name, {})),
                )
                for a in self._schema.attributes
                if table is None or a.name not in table.absent
            },
            malformed_rows={
                k: FaultCount(f.count, f.rows[: self._limit]) for k, f in facts.malformed.items()
            },
            extra_columns=() if table is None else table.extra_columns,
            target=None
            if target is None
            else TargetReport(target.name, len(target.labels), len(self._occurring)),
            files=tuple(part.n_rows for part in parts) if len(parts) > 1 else (),
            key=None if table is None else self._people(table),
            repeating=() if table is None or table.key else find_repeating(table.source.names),
            mapping=() if table is None or table.mapped is None else describe_mapping(table.mapped),
            **facts.shown(),
        )

    def _people(self, table: Table) -> KeyReport | None:
        if not table.key:
            return None
        if table.people is not None:
            table.people.require_all()
            return KeyReport(table.key, None, *table.people.counted, people=table.people.n_people)
        if self._keys.n_rows != self._n_rows:
            raise DataError(
                f"{self._keys.n_rows} rows of {table.title} were counted by {table.key}, and "
                f"{self._n_rows} were read: run the command again once nobody writes to it"
            )
        allowed = self._schema.max_rows_per_person
        if allowed is None:
            raise SettingError("the schema does not say max_rows_per_person")
        return KeyReport(table.key, allowed, *self._keys.total())

    def _commonest_out(self, attribute: Attribute) -> str:
        if not isinstance(attribute, Numeric):
            return ""
        found = self._out[attribute.name].commonest
        return " and ".join(value_text(attribute, each) for each in found)


def check_table(
    table: Table,
    schema: Schema,
    *,
    limit: int = 20,
    target: str | None = None,
    progress: Callable[[int], None] | None = None,
    keys: TextIO | None = None,
) -> CheckReport:
    """Read the whole table and report every fault in it.

    Raise `DataError` if the file is damaged, `SettingError` if the target is no attribute with
    labels. At most ``limit`` row numbers are given, per attribute and kind; ``target`` is an
    attribute of whose labels the number that occurs is reported, too; ``progress`` is called after
    each batch with the number of rows in it. The cells of the table's key are written to the file
    ``keys`` for the rows at fault, as CSV.
    """
    tally = FaultCounts(schema, limit=limit if table.source.is_numbered else 0, target=target)
    if keys is not None:
        csv.writer(keys, lineterminator="\n").writerow(["attribute", "fault", table.key])
    people = require_counted(table)
    for cells in table.cells(rows_at_once(schema)):
        counted = cells.keys if people is None else None
        masks = tally.add(cells.columns(), cells.plain, counted, outcomes=cells.outcomes)
        if people is not None:
            people.find(cells.keys)
        if keys is not None:
            _write_keys(keys, cells.keys, masks)
        if progress is not None:
            progress(cells.n_rows)
    return tally.report(table)


def _write_keys(file: TextIO, keys: pa.Array, masks: Masks) -> None:
    lines = csv.writer(file, lineterminator="\n")
    for name, kinds in masks.items():
        for kind, mask in kinds.items():
            found = cell_texts(keys.take(pa.array(np.flatnonzero(mask))))
            lines.writerows((name, kind.value, text) for text in found)


def _masks(
    attribute: Attribute, column: Column, cells: pa.Array | None
) -> dict[FaultKind, NDArray[np.bool_]]:
    """Rows that may be at fault, by kind; none if the smallest and largest value are sound."""
    lowest, highest = column.min(), column.max()
    if not isinstance(attribute, Numeric):
        if lowest >= 0 and highest < len(attribute.labels):
            return {}
        fault = find_attribute_faults(attribute, column)
        return {FaultKind.MISSING: fault.missing, FaultKind.UNKNOWN: fault.invalid}
    fractions = attribute.integer and attribute.type == "numeric"  # others are whole as they are
    if fractions:
        typed = cells is not None and pa.types.is_integer(cells.type)
        fractions = not typed and bool((column != np.rint(column)).any())
    if np.isfinite(lowest) and np.isfinite(highest) and not fractions:
        return _out_of_bounds(attribute, column, lowest, highest)
    fault = find_attribute_faults(attribute, column)
    invalid = {FaultKind.UNKNOWN: fault.invalid}
    if list_labels(attribute) is None:
        text = column == NOT_A_NUMBER
        invalid = {FaultKind.TEXT: fault.invalid & text, FaultKind.INFINITE: fault.invalid & ~text}
    return {
        FaultKind.MISSING: fault.missing,
        **invalid,
        FaultKind.OUT_OF_BOUNDS: fault.out,
        FaultKind.NOT_WHOLE: fault.not_whole,
    }


def _out_of_bounds(
    attribute: Numeric, column: Column, lowest: float, highest: float
) -> dict[FaultKind, NDArray[np.bool_]]:
    """Rows of finite values that may be out of bounds (`_masks`)."""
    lower = -np.inf if attribute.lower is None else attribute.lower
    upper = np.inf if attribute.upper is None else attribute.upper
    if lower <= lowest and highest <= upper:
        return {}
    if lower > lowest and highest > upper:
        out = (column < lower) | (column > upper)
    else:
        out = column < lower if lower > lowest else column > upper
    return {FaultKind.OUT_OF_BOUNDS: out}


def _labelled(schema: Schema, target: str) -> Binary | Categorical:
    attribute = next((a for a in schema.attributes if a.name == target), None)
    if attribute is None or isinstance(attribute, Numeric):
        raise SettingError(f"{target} is not a binary or categorical attribute of the study")
    return attribute


def _value_labels(attribute: Attribute, table: Table) -> Mapping[str, str]:
    """Labels of the schema that a file gives to its codes, which are what is read."""
    column = table.plain_columns.get(attribute.name, "")
    labels, codes = list_labels(attribute) or (), table.source.facts.value_labels.get(column, {})
    return {label: code for label, code in codes.items() if label in labels and code not in labels}


def _allows_missing(attribute: Attribute) -> bool:
    if isinstance(attribute, Categorical) and attribute.unknown is not None:
        return True
    return attribute.missing is not None
