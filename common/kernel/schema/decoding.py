"""Decoding: from coded units back to values, the inverse of `dppca.common.kernel.schema.coding`.

A numeric's coordinate in [-1/2, 1/2] becomes a number between its bounds, a whole one if the schema
requires it (in the unit ball, centre plus scale times the coordinate); with ``missing: indicator``
NaN stays NaN. A code stays a code, whose label is ``attribute.labels[code]``. The result is valid:
numbers within bounds and codes of listed labels, so `find_attribute_faults` finds no fault that the
schema does not provide for. A numeric with ``products: bins`` also has
codes, of its cells: `dppca.common.analysis.field.cell_values.draw_in_cells` converts them to
values.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SchemaMismatchError
from dppca.common.kernel.schema.attributes import Numeric
from dppca.common.kernel.schema.cells import Scale
from dppca.common.kernel.schema.coding import Column
from dppca.common.kernel.schema.document import Schema
from dppca.common.kernel.schema.layout import ColumnKind


def decode_columns(schema: Schema, columns: Sequence[Column]) -> list[Column]:
    """Convert columns to values of each attribute in its own unit.

    Return new arrays: float64 in the attribute's own unit, int32 codes. Raise `SchemaMismatchError`
    if the columns do not fit the schema: another number of them, a code without a label, or a
    coordinate that is not finite. ``columns`` has one array of shape (n_rows,) per attribute, in
    the schema's order: float64 coordinates for numerics, int32 codes for binaries, categoricals and
    numerics with ``products: bins``; they are not changed.
    """
    if len(columns) != len(schema.attributes):
        raise SchemaMismatchError(
            f"{len(columns)} decoded columns for {len(schema.attributes)} attributes"
        )
    values: list[Column] = []
    layout = schema.layout
    for attribute, (start, stop), column in zip(
        schema.attributes, layout.groups, columns, strict=True
    ):
        kind = layout.kinds[stop - 1]
        if isinstance(attribute, Numeric) and kind is ColumnKind.NUMERIC:
            coordinates = np.asarray(column, np.float64)
            known = coordinates[~np.isnan(coordinates)] if stop - start > 1 else coordinates
            if not np.isfinite(known).all():
                raise SchemaMismatchError(
                    f"decoded values of {attribute.name} are not finite: decode again"
                )
            values.append(_in_own_unit(attribute, coordinates))
        else:
            codes = np.array(column, np.int32)
            n_labels = 2 if kind is ColumnKind.BINARY else stop - start
            if codes.size and not 0 <= codes.min() <= codes.max() < n_labels:
                raise SchemaMismatchError(
                    f"decoded codes of {attribute.name} are none of its labels or bins"
                )
            values.append(codes)
    return values


def _in_own_unit(attribute: Numeric, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    if attribute.scale is not None:
        return attribute.middle + attribute.scale * coordinates
    scale = Scale.of(attribute)
    values = scale.values(coordinates)
    if attribute.integer:
        values = np.clip(np.rint(values), math.ceil(scale.lower), math.floor(scale.upper))
    return values
