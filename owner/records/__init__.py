"""An owner's data files; only this package opens them.

Rows go one way: a file's cells become typed columns (`Table.batches`), these become integers
(`dppca.common.schema.encode`), these become sums (`moments_of_table`). A `FaultCounts` counts the
values that the rules of coding replace, for the owner's eyes only.

Names are imported when they are first used: a list of studies and a budget wait for no Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dppca.common.schema.columns import INFINITE, NOT_A_NUMBER, parse_column
    from dppca.owner.records.check import FaultCounts, check_table
    from dppca.owner.records.faults import AttributeReport, CheckReport, FaultKind, LineFault
    from dppca.owner.records.summing import moments_of_table
    from dppca.owner.records.table import Table, open_table

__all__ = [
    "INFINITE",
    "NOT_A_NUMBER",
    "AttributeReport",
    "CheckReport",
    "FaultCounts",
    "FaultKind",
    "LineFault",
    "Table",
    "check_table",
    "moments_of_table",
    "open_table",
    "parse_column",
]
_PLACES = {
    "dppca.common.schema.columns": ("INFINITE", "NOT_A_NUMBER", "parse_column"),
    "dppca.owner.records.check": ("FaultCounts", "check_table"),
    "dppca.owner.records.faults": ("AttributeReport", "CheckReport", "FaultKind", "LineFault"),
    "dppca.owner.records.summing": ("moments_of_table",),
    "dppca.owner.records.table": ("Table", "open_table"),
}


def __getattr__(name: str) -> object:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
