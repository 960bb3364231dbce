"""Targets of a field: weights of entries, values at the end of their cell, what is attainable."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.field.targets import FieldTargets, coupling_scales, field_targets
from dppca.common.kernel.moments.moments import compute_moments, unpack, unpack_histograms
from dppca.common.kernel.schema import Column, Schema, encode, find_cells

NOISE = 0.002


def _schema(**fields: object) -> Schema:
    attributes = [
        {"name": "x", "type": "numeric", "lower": 0, "upper": 100, "histogram": True, "bins": 20},
        {"name": "plan", "type": "categorical", "categories": list("abc")},
        {"name": "flag", "type": "binary", "values": [0, 1]},
    ]
    return Schema.from_document({"attributes": attributes, **fields})


def _targets(schema: Schema, columns: list[Column], noise: float) -> FieldTargets:
    """Targets of a release without noise that is said to have some."""
    layout, n = schema.layout, len(columns[0])
    packed = compute_moments(encode(schema, columns), layout, find_cells(schema, columns)).packed
    mean, second = unpack(packed, n, layout)
    assert mean is not None
    return field_targets(
        schema,
        mean=mean,
        second=second,
        histograms=unpack_histograms(packed, n, layout),
        entry_noise=noise,
    )


def _columns(n: int = 10_000) -> list[Column]:
    rng = np.random.default_rng(3)
    flag = rng.random(n) < 0.3
    plan = rng.choice(3, n, p=(0.5, 0.3, 0.2))
    return [np.clip(rng.normal(40 + 20 * flag, 12), 0, 100), np.int32(plan), np.int32(flag)]


def test_products_of_targets_have_the_noise_of_their_weight() -> None:
    schema = _schema(sum_weight=0.5, targets=["flag"], target_weight=4)
    targets = _targets(schema, _columns(), NOISE)
    expected = np.full((5, 5), NOISE**2)
    expected[4, :4] = expected[:4, 4] = NOISE**2 / 16
    np.testing.assert_allclose(targets.entry_variance[targets.between], expected[targets.between])
    # The flag's mean: the sum at weight 1/2, and the categorical's three products at weight 4.
    assert 1 / targets.mean_variance[4] == pytest.approx((0.25 + 16 / 3) / NOISE**2)
    assert 1 / targets.mean_variance[0] == pytest.approx((0.25 + 1 / 3) / NOISE**2)
    x, flag = targets.mean[[0, 4]]
    of_means = x**2 * targets.mean_variance[4] + flag**2 * targets.mean_variance[0]
    assert targets.noise_variance[0, 4] == pytest.approx(NOISE**2 / 16 + of_means, rel=0.02)


def test_the_noise_of_a_histogram_is_that_of_its_weight() -> None:
    """The heavier the histogram the closer the marginal is to it."""
    columns = _columns(300)  # few rows: the shares are rough
    off = []
    for weight in (0.0625, 1, 16):
        schema = _schema(histogram_weight=weight)
        cells = schema.cells[0]
        assert cells is not None
        shares = np.bincount(cells.index(columns[0]), minlength=20) / 300
        found = _targets(schema, columns, 0.02).marginals[0]
        off.append(float(np.abs(found - shares).sum() / 2))
    assert off[0] > 1.5 * off[1] > 2 * off[2]
    assert off[2] < 0.02


@pytest.fixture
def at_one_end() -> list[Column]:
    """Half of the rows at 40, where a cell begins; they have the flag."""
    rng = np.random.default_rng(5)
    x, plan, flag = _columns()
    heaped = rng.random(len(x)) < 0.5
    return [np.where(heaped, 40.0, x), plan, np.where(heaped, 1, flag).astype(np.int32)]


def test_values_at_one_end_of_their_cell_do_not_bend_the_law(at_one_end: list[Column]) -> None:
    schema = _schema()
    cells = schema.cells[0]
    assert cells is not None
    shares = np.bincount(cells.index(at_one_end[0]), minlength=20) / len(at_one_end[0])
    found = _targets(schema, at_one_end, 2e-4).marginals[0]
    assert np.abs(found - shares).sum() / 2 < 0.004


def test_products_are_those_about_the_mean_of_the_values_themselves(
    at_one_end: list[Column],
) -> None:
    schema = _schema()
    coded = encode(schema, at_one_end) / 2**schema.resolution_bits
    covariance = np.cov(coded.T)
    targets = _targets(schema, at_one_end, 2e-4)
    assert abs(targets.mean[0] - coded[:, 0].mean()) > 0.01  # that of the middles of cells
    np.testing.assert_allclose(targets.products[0, 1:], covariance[0, 1:], atol=5e-4)


def _largest(x: NDArray[np.float64], share: float) -> float:
    """Covariance with a binary that the highest x have."""
    flag = x >= np.quantile(x, 1 - share)
    return float(np.mean((x - x.mean()) * flag))


def test_products_are_no_larger_than_the_marginals_allow() -> None:
    """x without its histogram is one bell, which no binary follows as closely as two humps."""
    document = _schema().model_dump(mode="json")
    document["attributes"][0]["histogram"] = False
    schema = Schema.from_document(document)
    rng = np.random.default_rng(6)
    flag = rng.random(20_000) < 0.5
    columns = [
        np.where(flag, rng.normal(80, 2, 20_000), rng.normal(20, 2, 20_000)),
        np.int32(rng.integers(3, size=20_000)),
        np.int32(flag),
    ]
    targets = _targets(schema, columns, 1e-3)
    q, centres = targets.marginals[0], targets.values[0][:, 0]
    bell = rng.choice(centres, 400_000, p=q) + rng.uniform(-0.025, 0.025, 400_000)
    most = _largest(bell, 0.5)
    sd = float(np.sqrt(targets.noise_variance[0, 4]))
    released = float(np.cov((encode(schema, columns) / 2**schema.resolution_bits).T)[0, 4])
    assert released > most + 4 * sd
    assert targets.products[0, 4] < most + sd
    assert targets.products[0, 4] > 0.9 * most


def test_pairs_with_numerics_do_not_widen_the_prior_of_pairs_without() -> None:
    """Each kind of pair has a centre of its own."""
    schema = _schema()
    targets = _targets(schema, _columns(), NOISE)
    alone = coupling_scales(targets, schema.layout.groups)
    tied = targets.products.copy()
    tied[0, 1:] *= 20
    tied[1:, 0] *= 20
    found = coupling_scales(replace(targets, products=tied), schema.layout.groups)
    assert (found[0, 1:4] > 2 * alone[0, 1:4]).all()
    np.testing.assert_array_equal(found[1:, 1:], alone[1:, 1:])


def test_the_fits_own_error_hides_no_relation_of_a_rare_label_or_a_narrow_number() -> None:
    rng = np.random.default_rng(3)
    rare = rng.random(20_000) < 0.004
    x = 50 + rng.normal(size=20_000) + 2 * rare
    plan = np.where(rng.random(20_000) < 0.5, rng.integers(1, 3, 20_000), 0).astype(np.int32)
    targets = _targets(_schema(), [x, plan, rare.astype(np.int32)], 1e-7)
    known = np.abs(targets.products) / np.sqrt(targets.noise_variance)
    assert known[0, 4] > 1, "the number and the rare label"
    assert targets.noise_variance[1, 4] < 2.5e-4**2 / 4
    assert targets.noise_variance[1, 0] < 2.5e-4**2
    noisy = _targets(_schema(), [x, plan, rare.astype(np.int32)], 1e-2)
    assert (noisy.noise_variance >= noisy.entry_variance).all()
