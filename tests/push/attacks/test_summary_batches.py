"""Attack: a row on the edge of a machine, and a file whose blocks end where another row says.

A released count of right predictions changes by at most 1 for one replaced row, if the label of
every other row stays what it was. BLAS rounds a score by the row's place in its batch; a file's
blocks end where the bytes of its rows say. So one longer row could turn the predictions of many
others that lie on the machine's edge. The same holds for the features that released weights are
trained on.

Rows on the edge are easy to find: synthetic rows are public, and of synthetic rows that mirror each
other the machine weighs two columns as w and -w, so that rows with the same number in both have a
score of nothing but rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dppca.common.estimators import PrivateSVM
from dppca.common.estimators.base.projection import project
from dppca.common.schema import encode_unit_ball
from dppca.common.study import Study
from dppca.owner.models.features import FeatureSpace
from dppca.owner.records import Table, delimited, open_table
from dppca.owner.records.sources import Malformed
from dppca.owner.release.summary import SummaryRequest, exact_counts, request_summary
from dppca.owner.synthesis.report.comparison import CodedTable, code_table
from tests.support.examples import examples
from tests.support.studies import make_study

PAIRS, BITS = 4, 10
UNIT = 1 << BITS
NAMES = [f"{side}{i}" for side in "ab" for i in range(PAIRS)]
N_ROWS = 1500


def study_of(*, ball: bool) -> Study:
    """Eight numerics, whose codes are their values times ``2^g``, and a target in box coding."""
    numeric: dict[str, Any] = {"type": "numeric", "lower": -0.5, "upper": 0.5}
    target: list[dict[str, Any]] = [{"name": "t", "type": "binary", "values": ["0", "1"]}]
    fields: dict[str, Any] = {"components": {"count": 2}, "resolution_bits": BITS}
    if ball:
        numeric, target = {"type": "numeric", "centre": 0, "scale": 4}, []
        fields["row_norm"] = {}
    attributes = [*({"name": name, **numeric} for name in NAMES), *target]
    return make_study(attributes, **fields)


STUDY, BALL = study_of(ball=False), study_of(ball=True)


class CutSource:
    """Rows in memory, in blocks of any lengths."""

    def __init__(self, table: pa.Table, lengths: Sequence[int]) -> None:
        self._table, self._lengths = table, lengths
        self.names = tuple(table.column_names)
        self.n_rows, self.malformed = table.num_rows, Malformed()

    def read(
        self, positions: Sequence[int], batch_rows: int, *, labels: Collection[int] = ()
    ) -> Iterator[list[Any]]:
        start, turn = 0, 0
        while start < self.n_rows:
            length = min(self._lengths[turn % len(self._lengths)], batch_rows)
            part = self._table.slice(start, length).combine_chunks()
            yield [part.column(p).chunk(0) for p in positions]
            start, turn = start + length, turn + 1
        assert labels is not None


def cut(study: Study, table: pa.Table, lengths: Sequence[int]) -> Table:
    source = CutSource(table, lengths)
    return Table(Path("rows"), study.table, table.num_rows, (), (), Malformed(), source)


def table_of(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> pa.Table:
    columns = {name: pa.array(rows[:, i]) for i, name in enumerate(NAMES)}
    return pa.table({**columns, "t": pa.array(labels.astype(str))})


def edge_rows(seed: int, n_rows: int = N_ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    half = rng.integers(-UNIT // 2, UNIT // 2 + 1, size=(n_rows, PAIRS)) / UNIT
    return table_of(np.hstack([half, half]), rng.integers(0, 2, size=n_rows))


@pytest.fixture(scope="module")
def synthetic() -> CodedTable:
    """Rows x of label y beside -x of the other label; the second half of x is minus the first."""
    rng = np.random.default_rng(1)
    half = rng.integers(-UNIT // 2, UNIT // 2 + 1, size=(200, PAIRS)) / UNIT
    labels = (half @ rng.normal(size=PAIRS) > 0).astype(np.int64)
    rows = np.hstack([half, -half])
    table = table_of(np.vstack([rows, -rows]), np.concatenate([labels, 1 - labels]))
    return code_table(cut(STUDY, table, [400]), np.random.default_rng(1))


REQUEST = request_summary(
    STUDY, data_set="d", synthetic_sha256="0" * 64, targets=("t",), epsilon="1", delta=None
)


def l1(request: SummaryRequest, first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    change = int(np.abs(first - second).sum())
    assert change <= request.calibration.sensitivity.l1
    return change


def test_a_longer_row_that_moves_all_blocks_of_a_csv_file_moves_one_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synthetic: CodedTable
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 2048)
    rows = edge_rows(2).to_pylist()
    counts = []
    for note in ("", "x" * 50):  # in a column that is not even read
        path = tmp_path / f"{len(note)}.csv"
        lines = [",".join([*map(str, row.values()), ""]) for row in rows]
        lines[0] += note
        path.write_text("\n".join([",".join([*NAMES, "t", "note"]), *lines, ""]))
        counts.append(exact_counts(REQUEST, open_table(path, STUDY.table), synthetic))
    assert l1(REQUEST, *counts) == 0


@pytest.mark.parametrize("lengths", [[1], [2], [7], [8], [9], [1000, 1], [3, 8, 64, 5], [N_ROWS]])
def test_the_counts_do_not_know_how_a_file_is_cut(
    lengths: list[int], synthetic: CodedTable
) -> None:
    rows = edge_rows(3)
    whole = exact_counts(REQUEST, cut(STUDY, rows, [N_ROWS]), synthetic)
    assert l1(REQUEST, whole, exact_counts(REQUEST, cut(STUDY, rows, lengths), synthetic)) == 0


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_row_groups_and_record_batches_move_nothing(
    tmp_path: Path, suffix: str, synthetic: CodedTable
) -> None:
    rows, counts = edge_rows(4), []
    for height in (N_ROWS, 13):
        path = tmp_path / f"{height}{suffix}"
        if suffix == ".parquet":
            pq.write_table(rows, path, row_group_size=height)
        else:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=height)
        counts.append(exact_counts(REQUEST, open_table(path, STUDY.table), synthetic))
    assert l1(REQUEST, *counts) == 0


def test_the_counts_do_not_know_how_many_threads_multiply(synthetic: CodedTable) -> None:
    table, counts = cut(STUDY, edge_rows(5, 20_000), [20_000]), []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            counts.append(exact_counts(REQUEST, table, synthetic))
    assert l1(REQUEST, counts[0], counts[1]) == l1(REQUEST, counts[0], counts[2]) == 0


def test_rows_count_as_they_do_alone(synthetic: CodedTable) -> None:
    """The sum over rows that the sensitivity is derived for."""
    rows = edge_rows(6, 200)
    alone = [
        exact_counts(REQUEST, cut(STUDY, rows.slice(i, 1), [1]), synthetic) for i in range(200)
    ]
    together = exact_counts(REQUEST, cut(STUDY, rows, [200]), synthetic)
    np.testing.assert_array_equal(np.sum(alone, axis=0), together)


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 2**32 - 1),
    place=st.integers(0, 99),
    first=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    second=st.lists(st.integers(1, 40), min_size=1, max_size=5),
)
def test_one_replaced_row_moves_the_summary_by_no_more_than_is_charged(
    synthetic: CodedTable, seed: int, place: int, first: list[int], second: list[int]
) -> None:
    rows = edge_rows(seed, 100)
    other = pa.concat_tables([rows.slice(0, place), edge_rows(seed + 1, 1), rows.slice(place + 1)])
    before = exact_counts(REQUEST, cut(STUDY, rows, first), synthetic)
    after = exact_counts(REQUEST, cut(STUDY, other, second), synthetic)
    l1(REQUEST, before, after)
    assert abs(int(before[-1]) - int(after[-1])) <= 1


@pytest.mark.parametrize("study", [STUDY, BALL], ids=["box", "ball"])
@pytest.mark.parametrize("height", [1, 2, 7, 8, 9, 101])
def test_features_of_released_weights_are_those_of_the_row_alone(study: Study, height: int) -> None:
    rng = np.random.default_rng(7)
    width = len(NAMES)
    space = FeatureSpace(
        np.arange(width),
        rng.normal(size=width) / 10,
        np.linalg.qr(rng.normal(size=(width, 3)))[0].T,
        row_norm=0.3,
    )

    def features(table: Table) -> NDArray[np.float64]:
        return np.concatenate([space.project(study.table, c) for c in table.batches(height)])

    rows = edge_rows(8, 303)
    together = space.project(study.table, next(cut(study, rows, [303]).batches(303)))
    assert features(cut(study, rows, [303])).tobytes() == together.tobytes()
    exact = project(rows.select(NAMES).to_pandas().to_numpy(), space.components)
    if study is STUDY:  # and they are what they should be
        exact -= space.components @ space.mean
        exact *= 0.3 / np.maximum(np.linalg.norm(exact, axis=1), 0.3)[:, None]
        np.testing.assert_allclose(together, exact, atol=1e-9)


@pytest.mark.parametrize("height", [1, 2, 7, 8, 9, 101])
def test_random_features_are_those_of_the_row_alone(height: int) -> None:
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(303, 9)) / 9, rng.integers(0, 2, size=303)
    model = PrivateSVM(epsilon=1, n_pairs=7, random_state=3, max_rows_per_person=1).fit(X, y)
    parts = [model.transform(X[start : start + height]) for start in range(0, 303, height)]
    assert np.concatenate(parts).tobytes() == model.transform(X).tobytes()


@pytest.mark.parametrize("width", [1, 7, 8, 9, 40])
def test_unit_ball_codes_do_not_know_how_rows_lie_in_memory(width: int) -> None:
    rows = np.random.default_rng(width).normal(size=(2000, width))
    coded = encode_unit_ball(rows, resolution_bits=14)
    other = encode_unit_ball(np.asfortranarray(rows), resolution_bits=14)
    alone = [encode_unit_ball(row[None], resolution_bits=14) for row in rows]
    np.testing.assert_array_equal(coded, other)
    np.testing.assert_array_equal(coded, np.concatenate(alone))


@settings(max_examples=examples(40))
@given(
    n_rows=st.integers(1, 60),
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=4),
    height=st.integers(1, 70),
)
def test_batches_are_as_high_as_asked_however_a_file_is_cut(
    n_rows: int, lengths: list[int], height: int
) -> None:
    rows = edge_rows(n_rows, n_rows)
    batches = list(cut(STUDY, rows, lengths).batches(height))
    assert [len(batch[0]) for batch in batches[:-1]] == [height] * ((n_rows - 1) // height)
    for column, name in enumerate(NAMES):
        found = np.concatenate([batch[column] for batch in batches])
        np.testing.assert_array_equal(found, rows[name].to_numpy())
