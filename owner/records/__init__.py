"""An owner's data files; only this package opens them.

Rows go one way: a file's cells become typed columns (`Table.batches`), these become integers
(`dppca.common.schema.encode`), these become sums (`moments_of_table`). A `FaultCounts` counts the
values that the rules of coding replace, for the owner's eyes only.
"""

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
