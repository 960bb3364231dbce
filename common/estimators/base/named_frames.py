"""Frames with the columns of a schema, as the arrays that estimators take.

A frame (pandas, polars, Arrow) that has a column of every attribute's name is read as an owner's
file is: by name, labels as text, numbers as numbers; other columns are left alone. What the schema
has no rule for is refused, as it is in arrays. A frame without those names is an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from dppca.common.errors import DataError
from dppca.common.schema import Attribute, Column, Numeric, Schema, find_attribute_faults
from dppca.common.schema.frames import read_frame


def read_named(
    estimator: Any, X: Any, schema: Schema | None, *, reset: bool
) -> NDArray[np.float64] | None:
    """A frame's rows as numbers and codes of labels, shape (n_rows, n_attributes); None for others.

    Parameters
    ----------
    estimator
        Remembers the columns' names, or compares them.
    reset
        Whether it is being fitted.

    Raises
    ------
    DataError
        There are no rows, values that the schema has no rule for, or other columns than fitted.
    """
    if schema is None or not has_columns(X, schema):
        return None
    names = [attribute.name for attribute in schema.attributes]
    frame = X.select(names) if hasattr(X, "select") else X[names]
    columns = read_frame(frame, schema)
    if not len(columns[0]):
        raise DataError("the frame has 0 rows: at least one is needed (n_samples=0)")
    try:
        validate_data(estimator, frame, reset=reset, skip_check_array=True)
    except ValueError as error:
        raise DataError(str(error)) from error
    pairs = zip(schema.attributes, columns, strict=True)
    return np.column_stack([_require_sound(attribute, column) for attribute, column in pairs])


def has_columns(X: Any, schema: Schema | None) -> bool:
    """Whether it is a frame with one column of every attribute's name."""
    if schema is None:
        return False
    names = getattr(X, "column_names", None)  # Arrow's; its columns are arrays
    if names is None:
        names = getattr(X, "columns", None)
    if names is None:
        return False
    found = [*names]
    return all(found.count(attribute.name) == 1 for attribute in schema.attributes)


def _require_sound(attribute: Attribute, column: Column) -> NDArray[np.float64]:
    """The column, what is missing as the schema says; `DataError` where it does not say."""
    faults = find_attribute_faults(attribute, column)
    if faults.invalid.any():
        numeric = isinstance(attribute, Numeric)
        what = "values that are no number" if numeric else "labels that the schema does not list"
        raise DataError(f"column {attribute.name} holds {what}: correct the rows, or the schema")
    if faults.missing.any():
        if isinstance(attribute, Numeric) or not _says_missing(attribute):
            raise DataError(
                f"column {attribute.name} has missing values, and the schema does not say what "
                "they count as: fill them in by a public rule first"
            )
        return np.where(faults.missing, attribute.missing_code, column).astype(np.float64)
    return np.asarray(column, np.float64)


def _says_missing(attribute: Any) -> bool:
    return attribute.missing is not None or getattr(attribute, "unknown", None) is not None
