"""An owner's data files: the only place that opens them.

Rows go one way: a file's cells become typed columns (`Table.batches`), these become integers
(`common.schema.encode`), these become sums (`moments_of_table`). What the rules of coding have to
mend is counted by `check_table`, for the owner's eyes only.
"""

from owner.records.check import AttributeReport, CheckReport, FaultKind, check_table
from owner.records.columns import INFINITE, NOT_A_NUMBER, column_of
from owner.records.sources import Malformed
from owner.records.summing import moments_of_table
from owner.records.table import Table, open_table

__all__ = [
    "INFINITE",
    "NOT_A_NUMBER",
    "AttributeReport",
    "CheckReport",
    "FaultKind",
    "Malformed",
    "Table",
    "check_table",
    "column_of",
    "moments_of_table",
    "open_table",
]
