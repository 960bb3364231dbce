"""Conversion of frames with a schema's columns to the arrays of estimators.

A frame (pandas, polars, Arrow) that has a column of every attribute's name is read like an owner's
file: by name, labels as text, numbers as numbers; other columns are ignored. A missing value of a
numeric with ``missing: level`` stays NaN. Values without a rule in the schema are refused, as in
arrays. A frame without those names is treated as an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from dppca.common.analysis.field.cell_values import keep_off_codes
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Attribute, Column, Numeric, Schema, find_attribute_faults
from dppca.common.kernel.schema.frames import (
    column_names,
    find_library,
    read_frame,
    table_for,
    to_table,
)


@dataclass(frozen=True, slots=True)
class RowForm:
    """Form in which rows came, so that other rows are returned in the same form.

    ``library`` is the frame's; None for an array, or a frame without the schema's columns.
    """

    library: str | None

    @classmethod
    def of(cls, X: Any, schema: Schema | None) -> RowForm:
        """Return the form of rows to fit."""
        return cls(find_library(X) if has_columns(X, schema) else None)

    def show(self, columns: Sequence[Column], schema: Schema) -> Any:
        """Return values of each attribute, float64 or codes of labels, in this form."""
        if self.library is None:
            return np.column_stack(columns).astype(np.float64)
        pairs = zip(schema.attributes, columns, strict=True)
        kept = [keep_off_codes(attribute, column) for attribute, column in pairs]
        return table_for(self.library, to_table(kept, schema))


def read_named(
    estimator: Any, X: Any, schema: Schema | None, *, reset: bool
) -> NDArray[np.float64] | None:
    """Return a frame's rows as numbers and codes of labels, (n_rows, n_attributes); else None.

    The estimator stores the columns' names if ``reset``, or else compares them. Raise `DataError`
    if there are no rows, values without a rule in the schema, or other columns than fitted.
    """
    if schema is None or not has_columns(X, schema):
        return None
    names = [attribute.name for attribute in schema.attributes]
    frame = X.select(names) if hasattr(X, "select") else X[names]
    columns = read_frame(frame, schema)
    if not len(columns[0]):
        raise DataError("the frame has 0 rows; it needs at least one (n_samples=0)")
    try:
        validate_data(estimator, frame, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise DataError(str(error)) from error
    pairs = zip(schema.attributes, columns, strict=True)
    return np.column_stack([_require_sound(attribute, column) for attribute, column in pairs])


def has_columns(X: Any, schema: Schema | None) -> bool:
    """Return True for a frame with exactly one column of every attribute's name."""
    names = column_names(X)
    if schema is None or names is None or isinstance(X, Mapping):
        return False
    return all(names.count(attribute.name) == 1 for attribute in schema.attributes)


def _require_sound(attribute: Attribute, column: Column) -> NDArray[np.float64]:
    """Return the column with missing values by the schema's rule; `DataError` without a rule."""
    faults = find_attribute_faults(attribute, column)
    if faults.invalid.any():
        numeric = isinstance(attribute, Numeric)
        what = "values that are not numbers" if numeric else "labels that the schema does not list"
        raise DataError(f"column {attribute.name} holds {what}: correct the rows, or the schema")
    if faults.missing.any():
        if attribute.missing is None and getattr(attribute, "unknown", None) is None:
            raise DataError(
                f"column {attribute.name} has missing values, and the schema does not say what "
                "they count as: fill them in by a public rule first"
            )
        if isinstance(attribute, Numeric):  # a level of its own: stays NaN
            return np.where(faults.missing, np.nan, column)
        return np.where(faults.missing, attribute.missing_code, column).astype(np.float64)
    return np.asarray(column, np.float64)
