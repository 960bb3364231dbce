"""Tables as codes of few values, for counting them: labels, and cells of numerics.

A label is a value. A numeric's values are the schema's cells (`dppca.common.schema.cells`); where
there are more than ``n_bins``, so many of equal width on the score's scale. Nothing is taken from
rows. A synthetic number is spread evenly over its cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.errors import SettingError
from dppca.common.numerics.synthesis.cell_values import CellValues
from dppca.common.papers.base.party_tables import encode_rows
from dppca.common.schema import Column, Numeric, Schema
from dppca.common.schema.cells import make_cells


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """The values that each of d attributes is counted by.

    Attributes
    ----------
    cells
        d: of numerics; None for labels.
    sizes
        d: how many values there are.
    """

    schema: Schema
    cells: tuple[CellValues | None, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, schema: Schema, *, n_bins: int) -> Domain:
        """The values of a schema's attributes, of a numeric at most ``n_bins`` and a spike.

        Raises
        ------
        SettingError
            A numeric has no bounds.
        """
        cells = tuple(
            _cells(attribute, n_bins) if isinstance(attribute, Numeric) else None
            for attribute in schema.attributes
        )
        sizes = tuple(
            len(own.kept) if own is not None else len(attribute.labels)  # type: ignore[union-attr]
            for own, attribute in zip(cells, schema.attributes, strict=True)
        )
        return cls(schema, cells, sizes)

    def encode(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Codes of rows (n_rows, d), each from 0 to its attribute's size - 1.

        Raises
        ------
        DataError
            A value is outside its attribute's bounds, or not one of its labels' codes.
        """
        encode_rows(self.schema, rows)
        codes = np.empty(rows.shape, np.int64)
        for index, own in enumerate(self.cells):
            column = rows[:, index]
            if own is not None:
                places = np.searchsorted(own.kept, own.cells.index(column))
                column = np.minimum(places, len(own.kept) - 1)
            codes[:, index] = column
        return codes

    def decode(self, codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows that the schema allows, of codes (n_rows, d), in the form of the rows encoded."""
        rows = codes.astype(np.float64)
        for index, own in enumerate(self.cells):
            if own is not None:
                evenly = own.spread(own.widths)
                rows[:, index] = evenly.draw(codes[:, index].astype(np.int32), rng)
        return rows

    def columns(self, rows: NDArray[np.float64]) -> list[Column]:
        """Rows as `decode` makes them, as a column for each attribute: numbers, codes of labels."""
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
