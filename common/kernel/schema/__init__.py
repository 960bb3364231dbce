"""Public description of a table, agreed before any row is read.

A name's module is imported with the name: who reads a ledger needs no coding of rows.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppca.common.kernel.schema.attributes import (
        Attribute,
        Binary,
        Categorical,
        Date,
        Numeric,
        Ordinal,
        Score,
        label_text,
    )
    from dppca.common.kernel.schema.cells import (
        Cells,
        Scale,
        count_whole,
        encode_numeric,
        encode_values,
    )
    from dppca.common.kernel.schema.coding import (
        MISSING,
        UNKNOWN,
        Column,
        Faults,
        encode,
        encode_unit_ball,
        find_attribute_faults,
        find_cells,
        known_labels,
        label_codes,
        row_codes,
    )
    from dppca.common.kernel.schema.document import MAX_COLUMNS, RowNorm, Schema
    from dppca.common.kernel.schema.layout import ColumnKind, Layout
    from dppca.common.kernel.schema.partitions import Partition

__all__ = [
    "MAX_COLUMNS",
    "MISSING",
    "UNKNOWN",
    "Attribute",
    "Binary",
    "Categorical",
    "Cells",
    "Column",
    "ColumnKind",
    "Date",
    "Faults",
    "Layout",
    "Numeric",
    "Ordinal",
    "Partition",
    "RowNorm",
    "Scale",
    "Schema",
    "Score",
    "count_whole",
    "encode",
    "encode_numeric",
    "encode_unit_ball",
    "encode_values",
    "find_attribute_faults",
    "find_cells",
    "known_labels",
    "label_codes",
    "label_text",
    "row_codes",
]

_NAMES = {
    "attributes": "Attribute Binary Categorical Date Numeric Ordinal Score label_text",
    "cells": "Cells Scale count_whole encode_numeric encode_values",
    "coding": "MISSING UNKNOWN Column Faults encode encode_unit_ball find_attribute_faults "
    "find_cells known_labels label_codes row_codes",
    "document": "MAX_COLUMNS RowNorm Schema",
    "layout": "ColumnKind Layout",
    "partitions": "Partition",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
