"""Shares of the rows in the cells of a number, and which values each cell holds.

A number's own cells are counted by histograms, tables, trees of which it is the target, and
``products: bins``; a table may count it in fewer parts of its coded range (``cells``). Own cells
come first, since they are narrower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Event, Linear, ReconciledMoments
from dppca.common.analysis.estimates.variables import Codes
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.cells import Scale, encode_numeric

_MOST_CODED = 100_000
"""Whole numbers of a range that are coded one by one; ends of more are rounded outwards."""


@dataclass(frozen=True, slots=True)
class CellEnds:
    """The least and the largest value of each of K cells, shapes (K,).

    With ``missing`` there is one more cell, the last, of the rows that lack the number.
    """

    first: Array
    last: Array
    missing: bool

    @property
    def n_cells(self) -> int:
        """Number of all cells."""
        return len(self.first) + self.missing


def shares_in_cells(
    moments: ReconciledMoments, attribute: int, events: Sequence[Event]
) -> tuple[CellEnds, Linear]:
    """Return the cells of a number, and shares of the rows in each, where each event is true.

    Events name the same attributes, none of them the number; an empty one is true of every row. The
    shares of an event follow each other. `SettingError` if the study did not count such cells.
    """
    own = moments.study.table.attributes[attribute]
    cells = moments.study.table.cells[attribute]
    if not isinstance(own, Numeric) or cells is None:
        raise SettingError(f"{own.name} is not a number with bounds, so it has no cells")
    first, last = cells.ends
    if not cells.integer:  # an edge counts as a value of both its cells: it is what people read
        above = cells.edges[1:]
        last = np.where(last == np.nextafter(above, -np.inf), above, last)
    spikes = np.array(cells.spikes)
    ends = CellEnds(np.r_[first, spikes], np.r_[last, spikes], cells.missing)
    try:
        return ends, moments.shares(_with_cells(attribute, ends.n_cells, events))
    except SettingError:
        found = _in_parts(moments, own, attribute, events)
        if found is not None:
            return found
        beside = [moments.study.table.attributes[each].name for each in events[0]]
        raise SettingError(
            f"study {moments.study.name} counted no cells of {own.name}"
            + (f" beside {' and '.join(beside)}" if beside else "")
            + ": that needs "
            + (
                f"a table of {own.name}, {', '.join(beside)}"
                if beside
                else "a histogram or a table of it"
            )
        ) from None


def _with_cells(attribute: int, size: int, events: Sequence[Event]) -> list[Event]:
    rows: Sequence[Codes] = np.eye(size, dtype=bool)  # type: ignore[assignment]
    return [{**event, attribute: row} for event in events for row in rows]


def _in_parts(
    moments: ReconciledMoments, own: Numeric, attribute: int, events: Sequence[Event]
) -> tuple[CellEnds, Linear] | None:
    """Return the shares of the table that has most parts of the number's coded range."""
    found = []
    for counts in moments.counts:
        for axis, part in enumerate(counts.parts):
            if part is not None and part[0] == attribute:
                axes = list(counts.attributes)
                axes[axis] = attribute
                if {*events[0], attribute} <= {*axes}:
                    found.append((part[1], replace(counts, attributes=tuple(axes)), axis))
    if not found:
        return None
    parts, counts, axis = max(found, key=lambda each: each[0])
    ends = CellEnds(
        *_ends_of_parts(own, parts, 2**moments.study.table.resolution_bits),
        counts.shares.shape[axis] > parts,
    )
    return ends, counts.find(_with_cells(attribute, ends.n_cells, events))


def _ends_of_parts(own: Numeric, parts: int, unit: int) -> tuple[Array, Array]:
    """Return the least and largest value of each part of the coded range, shapes (parts,).

    Where two parts meet, the value belongs to both: rounding decides, and either is allowed.
    """
    lower, upper = own.bounds
    if own.integer and floor(upper) - ceil(lower) < _MOST_CODED:
        values = np.arange(ceil(lower), floor(upper) + 1, dtype=np.float64)
        part = _parts(encode_numeric(own, values, unit), parts, unit)
        filled, starts = np.unique(part, return_index=True)
        stops = np.r_[starts[1:], len(values)] - 1
        first, last = np.full(parts, np.inf), np.full(parts, -np.inf)
        first[filled], last[filled] = values[starts], values[stops]
        return first, last
    starts = np.array([-(-part * (unit + 1) // parts) for part in range(1, parts)])
    inner = Scale.of(own).code_changes(unit)[starts - 1]
    first, last = np.r_[lower, inner], np.r_[inner, upper]
    return (np.floor(first), np.ceil(last)) if own.integer else (first, last)


def _parts(codes: NDArray[np.int32], parts: int, unit: int) -> Array:
    """Return parts as `dppca.common.kernel.schema.partitions.TableCells.find` does."""
    return np.asarray((codes.astype(np.int64) + unit // 2) * parts // (unit + 1))


def points(ends: CellEnds) -> Iterator[tuple[float, float, Codes, Codes]]:
    """Yield values, and ranges between two of them, that cells can tell apart, ascending.

    Each comes with two masks of the cells but that of missing values: which hold smaller values
    alone, and which hold any value that is at most as large. A range is open.
    """
    first, last = ends.first, ends.last
    some = first <= last  # parts of whole numbers may be empty
    values = np.unique(np.r_[first[some], last[some]])
    for place, value in enumerate(values):
        yield value, value, some & (last < value), some & (first <= value)
        if place + 1 < len(values):
            after = values[place + 1]
            if np.any((first <= value) & (last >= after)):
                yield value, after, some & (last <= value), some & (first <= value)
