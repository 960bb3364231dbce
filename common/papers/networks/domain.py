"""Tables as codes of few values, for counting: labels, and cells of numerics.

A label is a value. A numeric's values are the schema's cells (`dppca.common.kernel.schema.cells`)
or, if there are more than ``n_bins`` of them, ``n_bins`` of equal width on the score's scale.
Nothing is taken from rows. A synthetic number is spread evenly over its cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.cell_values import CellValues
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Column, Numeric, Schema
from dppca.common.kernel.schema.cells import make_cells
from dppca.common.papers.base.party_tables import encode_rows


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The values of d attributes: ``cells`` of numerics (None for labels) and number, ``sizes``."""

    schema: Schema
    cells: tuple[CellValues | None, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema, *, n_bins: int) -> Domain:
        """Make the domain of a schema: a numeric has at most ``n_bins`` intervals, and its spikes.

        Raise `SettingError` if a numeric has no bounds.
        """
        cells = tuple(
            _cells(attribute, n_bins) if isinstance(attribute, Numeric) else None
            for attribute in schema.attributes
        )
        sizes = tuple(
            own.cells.n_cells if own is not None else len(attribute.labels)  # type: ignore[union-attr]
            for own, attribute in zip(cells, schema.attributes, strict=True)
        )
        return cls(schema, cells, sizes)

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return codes of rows (n_rows, d), each from 0 to its attribute's size - 1.

        Raise `DataError` if a value is outside its attribute's bounds or not one of its labels'
        codes.
        """
        encode_rows(self.schema, rows)
        codes = np.empty(rows.shape, np.int64)
        for index, own in enumerate(self.cells):
            column = rows[:, index]
            codes[:, index] = column if own is None else own.cells.index(column)
        return codes

    def decode(self, codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return rows (n_rows, d) that the schema allows, for codes; the inverse of `encode`."""
        rows = codes.astype(np.float64)
        for index, own in enumerate(self.cells):
            if own is not None:
                evenly = own.spread(own.widths)
                rows[:, index] = evenly.draw(codes[:, index].astype(np.int32), rng)
        return rows

    def columns(self, rows: NDArray[np.float64]) -> list[Column]:
        """Split rows of `decode` into one column per attribute: numbers, or codes of labels."""
        return [
            column if own is not None else column.astype(np.int32)
            for own, column in zip(self.cells, rows.T, strict=True)
        ]


def _cells(attribute: Numeric, n_bins: int) -> CellValues:
    if attribute.lower is None:
        raise SettingError("the schema scales rows into the unit ball: give bounds instead")
    cells = make_cells(attribute)
    if cells.n_intervals > n_bins:
        cells = make_cells(attribute.model_copy(update={"bins": n_bins}))
    return CellValues.of(cells)
