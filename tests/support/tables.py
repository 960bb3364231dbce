"""Tables in memory, of what the product draws, reads and writes batch by batch."""

from __future__ import annotations

import pyarrow as pa

from dppca.common.attestation.tables import ColumnDigests
from dppca.owner.synthesis.rows import SyntheticRows


def drawn_table(rows: SyntheticRows) -> pa.Table:
    """All synthetic rows."""
    return pa.Table.from_batches(rows.batches(), rows.fields)


def digest_columns(table: pa.Table) -> dict[str, str]:
    """SHA-256 of every column."""
    digests = ColumnDigests(table.schema.names)
    for batch in table.to_batches():
        digests.add(batch)
    return digests.hexdigests()
