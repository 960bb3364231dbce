"""Tables in memory, of what the product draws, reads and writes batch by batch."""

from __future__ import annotations

import pyarrow as pa

from dppca.owner.synthesis.rows import SyntheticRows


def drawn_table(rows: SyntheticRows) -> pa.Table:
    """All synthetic rows."""
    return pa.Table.from_batches(rows.batches(), rows.fields)
