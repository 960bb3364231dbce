"""From coded units back to values: what `dppca.common.schema.coding` does, backwards.

A numeric's coordinate in [-1/2, 1/2] becomes a number between its bounds, a whole one where the
schema says so (in the unit ball, centre plus scale times the coordinate); a code stays a code,
whose label is ``attribute.labels[code]``. What comes out is valid: finite numbers within bounds and
codes of listed labels, so `find_faults` finds none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dppca.common.errors import SchemaMismatchError
from dppca.common.schema.attributes import Numeric
from dppca.common.schema.cells import Scale
from dppca.common.schema.coding import Column
from dppca.common.schema.document import Schema


def decode_columns(schema: Schema, columns: Sequence[Column]) -> list[Column]:
    """Values of each attribute in its own unit.

    Parameters
    ----------
    schema
        What is public.
    columns
        One array of shape (n_rows,) per attribute, in the schema's order: float64 coordinates for
        numerics, int32 codes for binaries and categoricals. Not changed.

    Returns
    -------
    list
        New arrays, as `encode` takes them: float64 in the attribute's own unit, int32 codes.

    Raises
    ------
    SchemaMismatchError
        The columns are not those of the schema: another number of them, a code that is no label's,
        or a coordinate that is not finite.
    """
    if len(columns) != len(schema.attributes):
        raise SchemaMismatchError(
            f"{len(columns)} decoded columns for {len(schema.attributes)} attributes"
        )
    values: list[Column] = []
    for attribute, column in zip(schema.attributes, columns, strict=True):
        if isinstance(attribute, Numeric):
            coordinates = np.asarray(column, np.float64)
            if not np.isfinite(coordinates).all():
                raise SchemaMismatchError(
                    f"decoded values of {attribute.name} are not finite: decode again"
                )
            values.append(_in_own_unit(attribute, coordinates))
        else:
            codes = np.array(column, np.int32)
            if codes.size and not 0 <= codes.min() <= codes.max() < len(attribute.labels):
                raise SchemaMismatchError(
                    f"decoded codes of {attribute.name} are none of its labels"
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
