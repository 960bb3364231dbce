"""Tables of several parties as arrays, coded by one public schema.

An array has one column per attribute of the schema: numbers for numerics, codes 0, 1, ... of the
labels for binaries and categoricals. The federation codes any row by rule and counts what it had to
mend (`common.schema.coding`); the estimators refuse rows outside the schema, so that what they fit
is what they were given.

Limits: arrays in memory. The order of the parties is that of their sorted names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from common.errors import DataError, SettingError
from common.schema import Column, ColumnKind, Numeric, Schema, encode


@dataclass(frozen=True, slots=True)
class Parties:
    """Which rows are whose.

    Attributes
    ----------
    names
        Shape (m,), sorted.
    rows
        Indices of each party's rows, m arrays.
    """

    names: NDArray[Any]
    rows: list[NDArray[np.intp]]


def parties_of(groups: ArrayLike | None, n_rows: int) -> Parties:
    """Parties from one name per row, shape (n_rows,); None is one party that holds all rows."""
    if groups is None:
        return Parties(np.array(["all"]), [np.arange(n_rows)])
    owner = np.asarray(groups)
    if owner.shape != (n_rows,):
        message = f"groups must name the party of each of {n_rows} rows, not be {owner.shape}"
        raise DataError(message)
    names, codes = np.unique(owner, return_inverse=True)
    return Parties(names, [np.flatnonzero(codes == code) for code in range(len(names))])


def schema_of_bounds(bounds: Any, n_columns: int, *, max_rows_per_person: int) -> Schema:
    """A schema of numerics only, from a pair of public bounds: numbers, or arrays (n_columns,)."""
    if bounds is None:
        message = "give a schema, or bounds=(lower, upper): public bounds, not taken from rows"
        raise SettingError(message)
    try:
        lower, upper = (np.broadcast_to(np.asarray(b, float), (n_columns,)) for b in bounds)
        attributes = [
            {"name": f"x{i}", "type": "numeric", "lower": float(a), "upper": float(b)}
            for i, (a, b) in enumerate(zip(lower, upper, strict=True))
        ]
        return Schema.from_document(
            {"attributes": attributes, "max_rows_per_person": max_rows_per_person}
        )
    except ValidationError as error:
        if n_columns < 2:
            message = f"X has 1 feature(s), n_features={n_columns}: components need two or more"
            raise DataError(message) from error
        message = f"bounds are not bounds: {error.errors(include_input=False)[0]['msg']}"
        raise SettingError(message) from error
    except (TypeError, ValueError) as error:
        message = f"bounds must be a pair of numbers, or of arrays of {n_columns} numbers"
        raise SettingError(message) from error


def schema_for(
    schema: Schema | None, bounds: Any, n_columns: int, *, max_rows_per_person: int
) -> Schema:
    """The schema given, if it has as many columns, or one made of the bounds."""
    if schema is None:
        return schema_of_bounds(bounds, n_columns, max_rows_per_person=max_rows_per_person)
    if len(schema.attributes) != n_columns:
        message = f"X has {n_columns} columns, the schema {len(schema.attributes)}"
        raise SettingError(message)
    return schema


def coded(schema: Schema, rows: NDArray[np.float64]) -> NDArray[np.int32]:
    """Rows (n_rows, n_attributes) as integers (n_rows, p), if the schema allows every value.

    Raises
    ------
    DataError
        A value is outside its attribute's bounds, or not one of its labels' codes.
    """
    columns: list[Column] = []
    for index, attribute in enumerate(schema.attributes):
        values = rows[:, index]
        if isinstance(attribute, Numeric):
            lower, upper = attribute.lower, attribute.upper
            if lower is None or upper is None:
                message = "the schema scales rows into the unit ball: give bounds instead"
                raise SettingError(message)
            if not np.all((values >= lower) & (values <= upper)):
                message = (
                    f"column {index} ({attribute.name}) leaves its bounds, {lower} to {upper}: "
                    "declare wider public bounds, or clip it by a public rule first"
                )
                raise DataError(message)
            columns.append(np.ascontiguousarray(values))
            continue
        n_labels = len(attribute.labels)
        if not np.all((values >= 0) & (values < n_labels) & (values == np.floor(values))):
            message = (
                f"column {index} ({attribute.name}) holds something else than the codes 0 to "
                f"{n_labels - 1} of its labels"
            )
            raise DataError(message)
        columns.append(values.astype(np.int32))
    return encode(schema, columns)


def in_real_units(schema: Schema, codes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Integer rows (n_rows, p) in coded units: numerics and binaries in [-1/2, 1/2]."""
    real: NDArray[np.float64] = codes / 2.0**schema.resolution_bits
    return real


def to_unit_interval(schema: Schema) -> NDArray[np.float64]:
    """What takes coded units to [0, 1], shape (p,): a half, but for indicators, which are there."""
    kinds = schema.layout.kinds
    return np.array([0.0 if kind is ColumnKind.INDICATOR else 0.5 for kind in kinds])
