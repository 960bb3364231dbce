"""What a table looks like to everybody before anybody has read a row of it."""

from dppca.common.schema.attributes import Attribute, Binary, Categorical, Numeric, label_text
from dppca.common.schema.coding import (
    MISSING,
    UNKNOWN,
    Column,
    Faults,
    encode,
    encode_unit_ball,
    find_attribute_faults,
    find_faults,
    known_labels,
)
from dppca.common.schema.document import MAX_COLUMNS, RowNorm, Schema
from dppca.common.schema.layout import ColumnKind, Layout

__all__ = [
    "MAX_COLUMNS",
    "MISSING",
    "UNKNOWN",
    "Attribute",
    "Binary",
    "Categorical",
    "Column",
    "ColumnKind",
    "Faults",
    "Layout",
    "Numeric",
    "RowNorm",
    "Schema",
    "encode",
    "encode_unit_ball",
    "find_attribute_faults",
    "find_faults",
    "known_labels",
    "label_text",
]
