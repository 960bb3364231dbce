#!/bin/sh
# pyarrow 26.0.1: what a Parquet file keeps of a table's metadata without the Arrow schema.
#
# Guess: `write_table(..., store_schema=False)` leaves out the entry `ARROW:schema` alone; the keys
# that the table's schema has (a writer's version, or the calendar that it counts days by) stay.
# Seen: the file has no key at all. With the default, and by `ParquetWriter.add_key_value_metadata`,
# they are in the footer.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
cd "$folder"
env/bin/python - <<'PYTHON'
import pyarrow as pa
import pyarrow.parquet as pq

table = pa.table({"day": [1]}).replace_schema_metadata({"writer.calendar": "old"})
pq.write_table(table, "with.parquet")
pq.write_table(table, "without.parquet", store_schema=False)
with pq.ParquetWriter("added.parquet", table.schema, store_schema=False) as writer:
    writer.write_table(table)
    writer.add_key_value_metadata({"writer.calendar": "old"})
kept = {name: pq.read_metadata(f"{name}.parquet").metadata for name in ("with", "without", "added")}
print(pa.__version__, {name: sorted(found or {}) for name, found in kept.items()})
assert kept["with"][b"writer.calendar"] == b"old"
assert kept["without"] is None, "the table's own keys are kept now"
assert kept["added"] == {b"writer.calendar": b"old"}
PYTHON
