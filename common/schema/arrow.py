"""Decoded rows as columns of Arrow: one type for each kind of attribute.

A numeric is float64 (NaN for a missing value with ``missing: level``), a date is ``date32``, and an
attribute with labels, also an ordinal, is a dictionary of them.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from dppca.common.schema.attributes import Attribute, Date, list_labels
from dppca.common.schema.coding import Column
from dppca.common.schema.document import Schema


def decoded_type(attribute: Attribute) -> Any:
    """Return Arrow's type of an attribute's values."""
    if list_labels(attribute) is not None:
        return pa.dictionary(pa.int32(), pa.string())
    return pa.date32() if isinstance(attribute, Date) else pa.float64()


def decoded_fields(schema: Schema) -> Any:
    """Return the ``pyarrow.Schema`` of decoded rows."""
    return pa.schema([(each.name, decoded_type(each)) for each in schema.attributes])


def decoded_array(attribute: Attribute, column: Column) -> Any:
    """Convert values from `dppca.common.schema.decoding.decode_columns` to an Arrow array."""
    labels = list_labels(attribute)
    if labels is None and not isinstance(attribute, Date):
        return pa.array(column, pa.float64())
    whole = pa.array(np.rint(column).astype(np.int32))
    if labels is None:
        return whole.view(pa.date32())
    return pa.DictionaryArray.from_arrays(whole, pa.array(labels, pa.string()))
