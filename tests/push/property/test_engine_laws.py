"""Laws of parts: however rows are cut, stored and answered for, the integers are the same."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.owner.engines import cluster as engines
from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.engines import MIXED, InProcess
from tests.support.examples import examples

number = st.one_of(
    st.none(),
    st.floats().map(repr),
    st.floats(-3, 4).map(repr),
    st.sampled_from(["", "x", "1e999"]),
)
label = st.one_of(st.none(), st.sampled_from(["yes", "no", " no ", "1", "1.0", "é", "true", "?"]))
rows_of_a_file = st.lists(st.tuples(number, number, label, label), max_size=9)


@settings(max_examples=examples(40))
@given(
    files=st.lists(
        st.tuples(st.sampled_from(["parquet", "csv", "arrow"]), rows_of_a_file),
        min_size=1,
        max_size=6,
    ).filter(lambda files: any(rows for _, rows in files)),
    slots=st.integers(1, 4),
    group_rows=st.integers(1, 5),
    seed=st.integers(0, 9),
    limit=st.integers(0, 3),
)
def test_any_cut_gives_the_integers_and_the_faults_of_one_process(
    files: list[tuple[str, list[tuple[str | None, ...]]]],
    slots: int,
    group_rows: int,
    seed: int,
    limit: int,
) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setitem(engines.make_manifest.__kwdefaults__, "least_bytes", 1)
        for index, (kind, rows) in enumerate(files):
            columns = list(zip(*rows, strict=True)) or [()] * 4
            data = {n: pa.array(c, pa.string()) for n, c in zip("xybc", columns, strict=True)}
            path = Path(place) / f"{index}.{kind}"
            if kind == "parquet":
                pq.write_table(pa.table(data), path, row_group_size=group_rows)
            elif kind == "csv":
                pa.csv.write_csv(pa.table(data), path)
            else:
                pa.feather.write_feather(pa.table(data), path)
        table = open_table(local_files(Path(place)), MIXED)
        cluster, tally = (
            InProcess(threads=slots, seed=seed, twice=seed % 2 == 0),
            FaultCounts(MIXED),
        )
        moments = cluster.sum_table(table, tally=tally, progress=lambda _: None)
        np.testing.assert_array_equal(moments.packed, moments_of_table(table, MIXED).packed)
        assert moments.n_rows == table.n_rows == sum(len(rows) for _, rows in files)
        counted = check_table(table, MIXED, limit=0)
        by_rule = {name: each.by_rule for name, each in tally.report(table).attributes.items()}
        assert by_rule == {name: each.by_rule for name, each in counted.attributes.items()}
        found = cluster.count_faults(table, limit=limit, target=None, progress=lambda _: None)
        assert found == check_table(table, MIXED, limit=limit)
