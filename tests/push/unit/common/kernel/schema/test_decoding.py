"""Decoding: marginals met, rows valid, and relations that thresholds lose kept."""

import numpy as np
import pytest

from dppca.common.analysis.field.discretize import discretize, threshold_labels
from dppca.common.analysis.field.marginals import apportion, assign
from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.analysis.spectrum.pca import decompose, pooled_covariance
from dppca.common.analysis.spectrum.ppca import fit_ppca, sample
from dppca.common.kernel.errors import SchemaMismatchError
from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.schema import Schema, encode
from dppca.common.kernel.schema.decoding import decode_columns
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

# Shares of five plans, and the chance of `flag` in each. The last plan is rare and always flagged;
# the first is common and flagged at times. This is the shape of the RAND experiment's plans.
_SHARES = (0.55, 0.20, 0.07, 0.13, 0.05)
_CHANCES = (0.38, 0.0, 0.0, 0.0, 1.0)


def _schema() -> Schema:
    return make_schema(
        [
            categorical_of("plan", list("abcde")),
            binary_of("flag", ["no", "yes"]),
            numeric_of("spent", -3, 17),
            binary_of("other", [0, 1]),
        ]
    )


Relation = tuple[Schema, np.ndarray, np.ndarray, list[np.ndarray]]


def _rows(n: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(11)
    plan = rng.choice(5, size=n, p=_SHARES).astype(np.int32)
    flag = (rng.random(n) < np.array(_CHANCES)[plan]).astype(np.int32)
    spent = rng.normal(4 + 3 * flag, 2, size=n)
    other = (rng.random(n) < 0.3 + 0.3 * (spent > 5)).astype(np.int32)
    return encode(_schema(), [plan, flag, spent, other])


def _release(
    schema: Schema, rows: np.ndarray, noise: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and second moment of rows with Gaussian noise on each entry of the packed vector."""
    layout = schema.layout
    packed = compute_moments(rows, layout).packed
    scale = noise * len(rows) * 4**layout.resolution_bits
    added = np.random.default_rng(seed).normal(scale=scale, size=len(packed))
    return unpack(packed + np.rint(added).astype(np.int64), len(rows), layout)


def _decoded(
    schema: Schema, mean: np.ndarray, second: np.ndarray, *, n: int, noise: float, seed: int = 3
) -> tuple[np.ndarray, list[np.ndarray]]:
    found = decompose(pooled_covariance(mean, second))
    k = max(1, int(np.count_nonzero(found.eigenvalues > 0)) - 1)
    model = fit_ppca(found.eigenvalues, found.vectors[:k], mean, trace_scaling=True)
    rng = np.random.default_rng(seed)
    coded = sample(model, n, rng=rng)
    return coded, discretize(
        coded, schema.layout, mean=mean, second=second, entry_noise=noise, rng=rng
    )


@pytest.fixture(scope="module")
def relation() -> Relation:
    schema = _schema()
    mean, second = _release(schema, _rows(), 0.003)
    # More rows than are fitted: the rest are drawn by what was found.
    coded, columns = _decoded(schema, mean, second, n=17_000, noise=0.003)
    return schema, mean, coded, columns


def test_a_relation_inside_a_categorical_is_kept_where_argmax_loses_it(relation: Relation) -> None:
    _, mean, coded, columns = relation
    plan, flag = columns[0], columns[1]
    lost_plan = assign(
        coded[:, :5], apportion(np.maximum(mean[:5], 0) / mean[:5].sum(), len(coded))
    )
    lost_flag = threshold_labels(coded[:, 5], mean[5])
    chances = np.array([flag[plan == k].mean() for k in range(5)])
    by_argmax = np.array([lost_flag[lost_plan == k].mean() for k in range(5)])
    assert np.abs(chances - _CHANCES).max() < 0.12
    assert np.abs(by_argmax - _CHANCES).max() > 0.25


def test_nothing_is_redrawn_for_differences_that_noise_explains() -> None:
    schema = _schema()
    mean, second = _release(schema, _rows(2000), 0.003)
    coded, columns = _decoded(schema, mean, second, n=500, noise=1e6)
    np.testing.assert_array_equal(columns[1], threshold_labels(coded[:, 5], mean[5]))


def test_without_categoricals_decoding_is_thresholds_alone() -> None:
    schema = make_schema([binary_of(f"b{i}", [0, 1]) for i in range(3)])
    coded = np.random.default_rng(0).normal(size=(1001, 3))
    mean = np.array([-0.9, 0.2, -0.1])
    columns = discretize(
        coded,
        schema.layout,
        mean=mean,
        second=np.eye(3),
        entry_noise=0.0,
        rng=np.random.default_rng(0),
    )
    assert [int(c.sum()) for c in columns] == [0, 701, 400]
    assert coded[columns[1] == 1, 1].min() > coded[columns[1] == 0, 1].max()


def test_rows_of_the_unit_ball_are_brought_into_it_and_keep_their_direction() -> None:
    attributes = [{"name": f"x{i}", "type": "numeric", "centre": 5, "scale": 2} for i in range(3)]
    schema = make_schema(attributes, row_norm={"include_sums": False})
    coded = np.array([[3.0, 0, 4], [0.1, 0.2, 0.3]])
    columns = discretize(
        coded,
        schema.layout,
        mean=None,
        second=np.eye(3),
        entry_noise=0.1,
        rng=np.random.default_rng(0),
    )
    np.testing.assert_allclose(np.column_stack(columns), [[0.6, 0, 0.8], [0.1, 0.2, 0.3]])
    values = np.column_stack(decode_columns(schema, columns))
    np.testing.assert_allclose(values, [[6.2, 5, 6.6], [5.2, 5.4, 5.6]])


def test_numbers_stay_within_bounds_whatever_rounding_does() -> None:
    schema = make_schema([numeric_of("x", 0.1, 0.7), numeric_of("y", -1e300, 1e300)])
    ends = np.array([-0.5, 0.0, 0.5])
    x, y = decode_columns(schema, [ends, ends])
    assert 0.1 <= x.min() < 0.1 + 1e-15
    assert x.max() == 0.7
    np.testing.assert_array_equal(y, [-1e300, 0, 1e300])


@pytest.mark.parametrize(
    "columns",
    [
        [np.zeros(2, np.int32)],
        [np.array([0, 5], np.int32), *[np.zeros(2, np.int32)] * 3],
        [np.array([0, -1], np.int32), *[np.zeros(2, np.int32)] * 3],
        [np.zeros(2, np.int32), np.zeros(2, np.int32), np.full(2, np.nan), np.zeros(2, np.int32)],
    ],
)
def test_columns_that_are_not_the_schemas_are_refused(columns: list[np.ndarray]) -> None:
    with pytest.raises(SchemaMismatchError):
        decode_columns(_schema(), columns)


def test_the_noise_of_an_entry_is_that_of_the_owners_sum_over_all_rows() -> None:
    layout = _schema().layout
    gaussian = entry_noise(layout, deviation=1e6, owner_rows=[100, 200, 100, 100])
    assert gaussian == pytest.approx(1e6 * 2 / (500 * 4**10))
    shared = entry_noise(layout, deviation=1e6, owner_rows=[500] * 4, mechanisms=2.0)
    assert shared == pytest.approx(1e6 * np.sqrt(2) / (2000 * 4**10))
