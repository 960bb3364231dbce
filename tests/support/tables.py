"""Tables in memory of rows that the product makes batch by batch."""

import pyarrow as pa

from dppca.common.analysis.rows.synthesis import SyntheticRows


def drawn_table(rows: SyntheticRows) -> pa.Table:
    return pa.Table.from_batches(rows.batches(), rows.fields)
