"""An owner's data files; only this package opens them.

Rows go one way: a file's cells become typed columns (`Table.batches`), these become integers
(`dppca.common.kernel.schema.encode`), these become sums (`moments_of_table`). A `FaultCounts`
counts the values that the rules of coding replace, for the owner's eyes only.
"""
