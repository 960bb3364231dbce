"""Laws of reconciliation: it is least squares onto all public identities, and so is its noise."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.noise import EntryNoise, MomentNoise, Noise, form
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from tests.support.examples import examples
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

S = 0.7
Array = NDArray[np.float64]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Numbers, some with a column of missing ones, labels and bins, all weights; or the ball."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, -2, -3]), min_size=2, max_size=5))
    kinds = {
        0: lambda name, _: numeric_of(name, 0, 9),
        1: lambda name, _: binary_of(name, ["n", "y"]),
        2: lambda name, _: numeric_of(name, 0, 9, missing="indicator"),
    }
    attributes = [
        kinds[size](f"a{place}", size)
        if size in kinds
        else categorical_of(f"a{place}", [f"l{label}" for label in range(size)])
        if size > 0
        else numeric_of(f"a{place}", 0, 9, bins=-size, products="bins")
        for place, size in enumerate(sizes)
    ]
    names = [each["name"] for each in attributes]
    targets = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    weight = draw(st.sampled_from([0.5, 1, 2]))
    if draw(st.integers(0, 7)) == 0:
        ball = {"type": "numeric", "centre": 0, "scale": 1}
        halved = {"halved_products": draw(st.booleans())}
        balls = [{"name": name, **ball} for name in names]
        return make_schema(balls, sum_weight=weight, row_norm=halved).layout
    more = {"targets": targets, "target_weight": 3} if targets else {}
    if {0, 2} & {*sizes}:
        more["square_weight"] = draw(st.sampled_from([1, 3]))
    return make_schema(attributes, sum_weight=weight, **more).layout


class Dense:
    """The same by one matrix: entries i <= j, their variances, and all identities as rows."""

    def __init__(self, layout: Layout) -> None:
        attribute = np.r_[-1, layout.attribute_of]
        kinds = ["one", *layout.kinds]
        deviation = np.zeros((len(kinds),) * 2)
        apart = attribute[1:, None] != attribute[1:]
        deviation[1:, 1:] = np.where(apart, S / layout.product_weights, 0)
        weight = layout.scaled_weight / 2**layout.resolution_bits
        deviation[0, 1:] = deviation[1:, 0] = S / weight
        if layout.halved_products:
            deviation[1:, 1:] *= np.sqrt(0.5)
        own = S / layout.square_weight
        np.fill_diagonal(deviation, [own * (kind == ColumnKind.NUMERIC) for kind in kinds])
        self.i, self.j = np.nonzero(np.triu(deviation))
        self.variance = deviation[self.i, self.j] ** 2
        self.tied = np.array([kind == ColumnKind.INDICATOR for kind in kinds])
        self.square_of_mean = self.tied + 0.5 * np.array(
            [kind == ColumnKind.MISSING for kind in kinds]
        )
        where = np.zeros_like(deviation, dtype=int)
        where[self.i, self.j] = where[self.j, self.i] = np.arange(len(self.i))
        rows, right = [], []
        for own in np.unique(attribute[self.tied]):
            labels = np.flatnonzero(attribute == own)
            for column in sorted({*range(len(kinds))} - {*labels}):
                row = np.zeros(len(self.i))
                row[[where[column, label] for label in labels]] = 1
                if column:
                    row[where[0, column]] = -1
                rows.append(row)
                right.append(float(column == 0))
        self.right, identities = np.array(right), np.array(rows).reshape(len(rows), len(self.i))
        spread = identities * self.variance
        self.gain = spread.T @ np.linalg.pinv(spread @ identities.T, rcond=1e-10)
        self.project = np.eye(len(self.i)) - self.gain @ identities

    def gradients(self, forms: Array) -> Array:
        forms = forms.copy()
        tied = np.flatnonzero(self.square_of_mean)
        forms[:, 0, tied] += forms[:, tied, tied] * self.square_of_mean[tied]
        return forms[:, self.i, self.j]


def _released(dense: Dense, layout: Layout, rng: np.random.Generator) -> Array:
    p = layout.n_columns + 1
    matrix = np.zeros((p, p))
    matrix[dense.i, dense.j] = rng.standard_normal(len(dense.i))
    matrix = np.triu(matrix) + np.triu(matrix, 1).T
    tied = dense.square_of_mean > 0
    matrix[tied, tied] = (matrix[0] * dense.square_of_mean)[tied]
    matrix[0, 0] = 1
    return matrix


@given(layout=layouts(), seed=st.integers(0, 1000))
@settings(max_examples=examples(60), deadline=None)
def test_reconciliation_is_least_squares_onto_all_identities(layout: Layout, seed: int) -> None:
    dense, rng = Dense(layout), np.random.default_rng(seed)
    matrix = _released(dense, layout, rng)
    noise = MomentNoise(layout, EntryNoise(S, LaplaceLaw, 3.0))
    found = noise.reconcile(matrix)
    entries = dense.project @ matrix[dense.i, dense.j] + dense.gain @ dense.right
    assert_allclose(found[dense.i, dense.j], entries, atol=1e-10)
    assert_allclose(found, found.T, atol=1e-12)
    tied = dense.square_of_mean > 0
    assert_allclose(np.diag(found)[tied], (found[0] * dense.square_of_mean)[tied], atol=1e-12)
    assert_allclose(noise.reconcile(found), found, atol=1e-10)


@given(layout=layouts(), seed=st.integers(0, 1000), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_noise_of_any_functional_is_exact(
    layout: Layout, seed: int, data: st.DataObject
) -> None:
    """Its covariance and its kurtosis, from the columns of some attributes alone."""
    dense, rng = Dense(layout), np.random.default_rng(seed)
    noise = MomentNoise(layout, EntryNoise(S, LaplaceLaw, 3.0))
    places = st.integers(0, len(layout.groups) - 1)
    chosen = data.draw(st.lists(places, min_size=1, max_size=3, unique=True))
    block = Block.of(noise, chosen, noise.reconcile(_released(dense, layout, rng)))
    left, right = rng.standard_normal((2, 3, len(block.columns)))
    wide = np.zeros((2, 3, layout.n_columns + 1))
    wide[0, :, block.columns], wide[1, :, block.columns] = left.T, right.T
    raw = dense.gradients(form(wide[0], wide[1])) @ dense.project * np.sqrt(dense.variance)
    found = block.noise(form(left, right))
    assert_allclose(found.covariance, raw @ raw.T, atol=1e-10)
    fourth = (raw**4).sum(axis=1) / (raw**2).sum(axis=1) ** 2
    assert_allclose(found.kurtosis, fourth, atol=1e-9)  # excess 3 of one, three in the pool
    between = block.variances_between(left, right)
    every = form(wide[0][:, None], wide[1][None]).reshape(9, *(layout.n_columns + 1,) * 2)
    raw = dense.gradients(every) @ dense.project * np.sqrt(dense.variance)
    assert_allclose(between.ravel(), (raw**2).sum(axis=1), atol=1e-9)


def test_simulated_noise_has_the_covariance() -> None:
    attributes = [
        numeric_of("x", 0, 9),
        categorical_of("y", ["a", "b", "c"]),
        categorical_of("z", ["d", "e", "f", "g"]),
    ]
    layout = make_schema(attributes).layout
    noise = MomentNoise(layout, EntryNoise(S, LaplaceLaw, 3.0))
    rng = np.random.default_rng(5)
    block = Block.of(noise, [0, 1, 2], np.eye(layout.n_columns + 1))
    left, right = rng.standard_normal((2, 4, len(block.columns)))
    found = block.noise(form(left, right))
    drawn = found.contributions @ found.draw_units(20_000, rng)
    assert_allclose(drawn.var(axis=1), found.variance, rtol=0.06)
    units = Noise(np.eye(2), np.array([1.0, 3.0]), np.array([1.0, 0.5])).draw_units(200_000, rng)
    assert_allclose(units.var(axis=1), [1, 3], rtol=0.03)
    fourth = (units**4).mean(axis=1) / units.var(axis=1) ** 2 - 3
    assert_allclose(fourth, [1, 0.5 / 3], atol=0.1)
