"""Decoded rows as columns of Arrow: one type for each kind of attribute.

A numeric is float64, or int64 with ``integer: true``; null is a missing value, which needs
``missing``. A date is ``date32``. An attribute with labels is a dictionary of them, which is
ordered for an ordinal. Rows of 0.1.0 have float64 for all numbers, NaN for a missing one, and no
ordered dictionary: `conform` reads both.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from dppca.common.kernel.schema.attributes import Attribute, Date, Numeric, Ordinal, list_labels
from dppca.common.kernel.schema.coding import Column
from dppca.common.kernel.schema.document import Schema

_INT64 = float(1 << 63)


def decoded_type(attribute: Attribute) -> Any:
    """Return Arrow's type of an attribute's values."""
    if list_labels(attribute) is not None:
        return pa.dictionary(pa.int32(), pa.string(), ordered=isinstance(attribute, Ordinal))
    if isinstance(attribute, Date):
        return pa.date32()
    return pa.int64() if _is_whole(attribute) else pa.float64()


def accepts(attribute: Attribute, kind: Any) -> bool:
    """Return True for a type that values other than labels may have, also in rows of 0.1.0."""
    wanted = decoded_type(attribute)
    return bool(kind == wanted or (pa.types.is_int64(wanted) and pa.types.is_float64(kind)))


def may_be_null(attribute: Attribute) -> bool:
    """Return True if synthetic rows may lack a value of the attribute."""
    return isinstance(attribute, Numeric) and attribute.missing is not None


def decoded_fields(schema: Schema) -> Any:
    """Return the ``pyarrow.Schema`` of decoded rows."""
    return pa.schema([(each.name, decoded_type(each)) for each in schema.attributes])


def decoded_array(attribute: Attribute, column: Column) -> Any:
    """Turn values of `dppca.common.kernel.schema.decoding.decode_columns` to an Arrow array."""
    labels, kind = list_labels(attribute), decoded_type(attribute)
    if labels is None and not isinstance(attribute, Date):
        return _numbers(column, kind)
    codes = pa.array(np.rint(column).astype(np.int32))
    if labels is None:
        return codes.view(kind)
    return pa.DictionaryArray.from_arrays(
        codes, pa.array(labels, pa.string()), ordered=kind.ordered
    )


def conform(attribute: Attribute, column: Any) -> Any:
    """Return an accepted column of numbers or dates, also of 0.1.0, in the attribute's type."""
    if isinstance(attribute, Date) or not (
        pa.types.is_float64(column.type) and (may_be_null(attribute) or _is_whole(attribute))
    ):
        return column
    return _numbers(column.to_numpy(zero_copy_only=False), decoded_type(attribute))


def _numbers(values: Any, kind: Any) -> Any:
    """Return numbers as an array with null for NaN; whole ones are rounded."""
    values = np.asarray(values, np.float64)
    if not pa.types.is_int64(kind):
        return pa.array(values, kind, from_pandas=True)
    missing = np.isnan(values)
    whole = np.where(missing, 0.0, np.rint(values)).astype(np.int64)
    return pa.array(whole, kind, mask=missing)


def _is_whole(attribute: Attribute) -> bool:
    """Return True for whole numbers whose bounds 64 bits can hold."""
    return (
        isinstance(attribute, Numeric)
        and attribute.integer
        and attribute.lower is not None
        and attribute.upper is not None
        and attribute.lower >= -_INT64
        and attribute.upper < _INT64
    )
