#!/usr/bin/env bash
# pyarrow 26.0.1 with read_dictionary, of a Parquet file by DuckDB 2.0.1, Python 3.11: a column of DuckDB's type ENUM.
#
# Expected: the labels of the rows, with read_dictionary=["s"] as without.
# Seen: DuckDB lists an empty text for each value of the type that does not occur. pyarrow joins equal texts of the
# list and keeps the codes: of rows `c`, and `d` of a type (a, b, c, d) the codes are 2 and 3 of the list "", c, d. So
# `c` is read as `d`, without a word.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "duckdb==2.0.1" "pyarrow==26.0.1"
"$work/venv/bin/pip" freeze
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import sys
import duckdb
import pyarrow.parquet as pq

connection = duckdb.connect()
connection.execute("create type e as enum ('a', 'b', 'c', 'd')")
connection.execute("create table t as select (case when i < 5 then 'c' else 'd' end)::e s from range(10) r(i)")
connection.execute("copy t to 'rows.parquet'")
plain = pq.read_table("rows.parquet")["s"].to_pylist()
batches = [batch["s"] for batch in pq.ParquetFile("rows.parquet", read_dictionary=["s"]).iter_batches(5)]
codes, listed = batches[0].indices.to_pylist(), batches[0].dictionary.to_pylist()
print("plain:", plain, "| first codes:", codes, "of", listed)
sys.exit(0 if plain[:5] == ["c"] * 5 and [listed[code] for code in codes] == ["d"] * 5 else 1)
PYTHON
