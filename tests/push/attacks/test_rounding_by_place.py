"""Attack: a file whose blocks end where another row says, and features that round by place.

A released model is trained on features, and one replaced row may change its own features alone.
BLAS rounds a product by the row's place in its batch; a file's blocks end where the bytes of its
rows say. So one longer row could change the features of many others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.projection import project
from dppca.common.kernel.schema import encode_unit_ball
from dppca.common.kernel.study import Study
from dppca.common.papers import PrivateSVM
from dppca.owner.models.features import FeatureSpace
from dppca.owner.records.sources import Source, Wanted
from dppca.owner.records.table import Table
from tests.support.examples import examples
from tests.support.studies import binary_of, make_study

PAIRS, BITS = 4, 10
UNIT = 1 << BITS
NAMES = [f"{side}{i}" for side in "ab" for i in range(PAIRS)]
N_ROWS = 1500


def study_of(*, ball: bool) -> Study:
    """Eight numerics, whose codes are their values times ``2^g``, and a target in box coding."""
    numeric: dict[str, Any] = {"type": "numeric", "lower": -0.5, "upper": 0.5}
    target: list[dict[str, Any]] = [binary_of("t", ["0", "1"])]
    fields: dict[str, Any] = {"components": {"count": 2}, "resolution_bits": BITS}
    if ball:
        numeric, target = {"type": "numeric", "centre": 0, "scale": 4}, []
        fields["row_norm"] = {}
    attributes = [*({"name": name, **numeric} for name in NAMES), *target]
    return make_study(attributes, **fields)


STUDY, BALL = study_of(ball=False), study_of(ball=True)


@dataclass(frozen=True, kw_only=True)
class CutSource(Source):
    """Rows in memory, in blocks of any lengths."""

    table: pa.Table
    lengths: Sequence[int]

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        start, turn = 0, 0
        while start < self.n_rows:
            length = min(self.lengths[turn % len(self.lengths)], wanted.batch_rows)
            part = self.table.slice(start, length).combine_chunks()
            yield [part.column(name).chunk(0) for name in wanted.names]
            start, turn = start + length, turn + 1


def cut(study: Study, table: pa.Table, lengths: Sequence[int]) -> Table:
    source = CutSource(
        title="rows",
        names=tuple(table.column_names),
        n_rows=table.num_rows,
        table=table,
        lengths=lengths,
    )
    return Table(study.table, source)


def table_of(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> pa.Table:
    columns = {name: pa.array(rows[:, i]) for i, name in enumerate(NAMES)}
    return pa.table({**columns, "t": pa.array(labels.astype(str))})


def edge_rows(seed: int, n_rows: int = N_ROWS) -> pa.Table:
    rng = np.random.default_rng(seed)
    half = rng.integers(-UNIT // 2, UNIT // 2 + 1, size=(n_rows, PAIRS)) / UNIT
    return table_of(np.hstack([half, half]), rng.integers(0, 2, size=n_rows))


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
