"""Fields: most probable under the noise, marginals met, the same rows again, flat in memory."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dppca.common.analysis.field import field as field_module
from dppca.common.analysis.field.field import draw_blocks
from dppca.common.analysis.field.rows import FieldFit, fit_released
from dppca.common.analysis.field.targets import FieldTargets, field_targets
from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.schema import Schema, encode
from tests.support.faults import find_faults
from tests.support.noise import gaussian_tail
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

MIXED = make_schema(
    [
        categorical_of("plan", list("abcde")),
        binary_of("flag", ["no", "yes"]),
        numeric_of("spent", -3, 17),
        binary_of("other", [0, 1]),
    ]
)
BINARY = make_schema([binary_of(f"b{i}", [0, 1]) for i in range(6)])


def _mixed_rows(n: int = 20_000) -> NDArray[np.int32]:
    """A rare plan settles the flag, the flag moves the money, and the last column is chance."""
    rng = np.random.default_rng(4)
    plan = rng.choice(5, n, p=(0.55, 0.20, 0.07, 0.13, 0.05))
    flag = rng.random(n) < np.array((0.38, 0.02, 0.02, 0.02, 0.98))[plan]
    spent = rng.normal(4 + 5 * flag, 2.0)
    other = rng.random(n) < 0.3
    return encode(MIXED, [np.int32(plan), np.int32(flag), spent, np.int32(other)])


def _binary_rows(n: int = 40_000) -> NDArray[np.int32]:
    """Disabilities of one person: one hidden severity decides all six."""
    rng = np.random.default_rng(5)
    severity = rng.normal(size=n)
    hidden = [severity + rng.normal(size=n) > 0.3 * i for i in range(6)]
    return encode(BINARY, [np.int32(each) for each in hidden])


def _release(
    schema: Schema, rows: NDArray[np.int32], noise: float = 0.0, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    mean, second = unpack(compute_moments(rows, schema.layout).packed, len(rows), schema.layout)
    assert mean is not None
    rng = np.random.default_rng(seed)
    error = rng.normal(scale=noise, size=second.shape)
    return mean + rng.normal(scale=noise, size=len(mean)), second + (error + error.T) / np.sqrt(2)


def _fit(schema: Schema, rows: NDArray[np.int32], noise: float = 0.0, seed: int = 1) -> FieldFit:
    mean, second = _release(schema, rows, noise)
    fit = fit_released(
        schema,
        mean=mean,
        second=second,
        histograms=[None] * len(schema.attributes),
        entry_noise=noise,
        n_rows=len(rows),
        rng=np.random.default_rng(seed),
        tail=gaussian_tail,
    )
    assert fit is not None
    return fit


def _targets(
    schema: Schema, mean: NDArray[np.float64], second: NDArray[np.float64], noise: float
) -> FieldTargets:
    return field_targets(
        schema,
        mean=mean,
        second=second,
        histograms=[None] * len(schema.attributes),
        entry_noise=noise,
    )


def _coded(schema: Schema, fit: FieldFit, n: int) -> NDArray[np.int32]:
    blocks = fit.blocks(n, rng=np.random.default_rng(2))
    columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
    for faults in find_faults(schema, columns).values():
        assert not (faults.missing | faults.invalid | faults.out).any()
    return encode(schema, columns)


@pytest.mark.parametrize(("schema", "rows"), [(MIXED, _mixed_rows()), (BINARY, _binary_rows())])
def test_rows_of_a_field_have_the_second_moments_of_the_release(
    schema: Schema, rows: NDArray[np.int32]
) -> None:
    fit = _fit(schema, rows)
    assert fit.converged
    drawn = _coded(schema, fit, 20_000)
    mean, second = _release(schema, rows)
    drawn_mean, drawn_second = _release(schema, drawn)
    np.testing.assert_allclose(drawn_mean, mean, atol=0.01)
    np.testing.assert_allclose(drawn_second, second, atol=0.015)


def test_every_marginal_is_met_to_within_a_row_over_all_blocks() -> None:
    fit = _fit(MIXED, _mixed_rows())
    n = 10_001  # no multiple of a block
    codes = np.concatenate(
        list(draw_blocks(fit.fitted, fit.targets, n, rng=np.random.default_rng(3)))
    )
    for q, each in zip(fit.fitted.marginals, codes.T, strict=True):
        assert np.abs(np.bincount(each, minlength=len(q)) - n * q).max() < 1


@pytest.mark.parametrize(("schema", "rows"), [(MIXED, _mixed_rows()), (BINARY, _binary_rows())])
def test_the_same_seed_gives_the_same_rows_with_any_number_of_threads(
    schema: Schema, rows: NDArray[np.int32]
) -> None:
    made = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            made.append(_coded(schema, _fit(schema, rows, 0.01), 5_000))
    np.testing.assert_array_equal(*made)


def test_what_noise_alone_could_have_made_is_not_believed() -> None:
    rows = _mixed_rows()
    quiet, loud = (_fit(MIXED, rows, noise).fitted.field.couplings for noise in (1e-4, 0.5))
    assert np.abs(loud).max() < 0.05 * np.abs(quiet).max()


def test_a_fit_that_was_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_module, "_SWEEPS", 2)
    assert not _fit(MIXED, _mixed_rows()).converged


@pytest.mark.parametrize(("noise", "chains"), [(0.05, 4096), (0.0025, 10_000), (0.0, 32_768)])
def test_chains_of_binaries_have_no_more_chance_than_the_release_has_noise(
    noise: float, chains: int
) -> None:
    fit = _fit(BINARY, _binary_rows(), noise)
    assert len(fit.fitted.codes) == pytest.approx(chains, abs=1)
    assert fit.converged


def test_the_binary_field_is_the_most_probable_one() -> None:
    """At the fitted parameters, enumeration of all 64 rows leaves no gradient of equation (1)."""
    noise = 0.01
    fit = _fit(BINARY, _binary_rows(), noise)
    law = _enumerated(fit)
    signs = 2.0 * np.array(list(product((0, 1), repeat=6))) - 1
    i, j = np.triu_indices(6, 1)
    x = np.c_[signs, signs[:, i] * signs[:, j]]
    m = law @ x
    fisher = (x * law[:, None]).T @ x - np.outer(m, m)
    mean = 2 * fit.targets.mean
    t = np.r_[mean, (4 * fit.targets.products + np.outer(mean, mean))[i, j]]
    pairs = fit.fitted.field.couplings[i, j] / 4
    biases = np.array([b[1] - b[0] for b in fit.fitted.field.biases])
    theta = np.r_[biases / 2 - (fit.fitted.field.couplings @ fit.targets.mean) / 2, pairs]
    variance = np.r_[4 * fit.targets.mean_variance, np.full(15, 16 * noise**2)]
    from_data = fisher @ ((t - m) / variance)[:]
    # The width of the prior is not given out: the best one for these parameters is taken.
    width = np.linalg.lstsq(pairs[:, None], from_data[6:], rcond=None)[0][0]
    precision = np.r_[np.full(6, 1 / 9), np.full(15, width)]
    curvature = (fisher / variance) @ fisher + np.diag(precision)
    off = np.linalg.solve(curvature, from_data - precision * theta)
    assert np.abs(off / np.sqrt(np.diag(np.linalg.inv(curvature)))).max() < 0.5


def _enumerated(fit: FieldFit) -> NDArray[np.float64]:
    z = np.array(list(product((-0.5, 0.5), repeat=6))) - fit.targets.mean
    energy = np.einsum("ni,ij,nj->n", z, fit.fitted.field.couplings, z) / 2
    codes = (z + fit.targets.mean > 0).astype(int)
    energy += sum(b[codes[:, a]] for a, b in enumerate(fit.fitted.field.biases))
    weights = np.exp(energy - energy.max())
    return weights / weights.sum()


@pytest.mark.parametrize("noise", [0.0, 0.05, 2.0])
def test_any_noise_leaves_valid_targets(noise: float) -> None:
    mean, second = _release(MIXED, _mixed_rows(500), noise, seed=9)
    targets = _targets(MIXED, mean, second, noise)
    for q in targets.marginals:
        assert (q > 0).all()
        assert q.sum() == pytest.approx(1)
    bound = np.sqrt(np.outer(targets.variance, targets.variance))
    assert (np.abs(targets.products) <= bound + 1e-12).all()
    np.testing.assert_array_equal(targets.products, targets.products.T)


def test_there_is_no_field_without_sums_or_for_one_attribute() -> None:
    rng = np.random.default_rng(0)
    rest = {"histograms": [None] * 4, "entry_noise": 0.0, "n_rows": 9}
    rest |= {"rng": rng, "tail": gaussian_tail}
    assert fit_released(MIXED, mean=None, second=np.eye(8), **rest) is None
    three = make_schema([categorical_of("a", list("abc"))])
    assert fit_released(three, mean=np.zeros(3), second=np.eye(3), **rest) is None


def test_strongly_correlated_numerics_stay_so() -> None:
    """From independence, chains that mix slowly would stop at a correlation of 0.6."""
    rng = np.random.default_rng(3)
    values = 0.95 * rng.normal(size=(20_000, 1)) + 0.31 * rng.normal(size=(20_000, 8))
    schema = make_schema([numeric_of(f"n{i}", -4, 4) for i in range(8)])
    rows = encode(schema, list(values.T))
    fit = _fit(schema, rows, noise=1e-4)
    assert fit.converged
    drawn = _coded(schema, fit, 20_000)
    assert np.abs(np.corrcoef(drawn.T) - np.corrcoef(rows.T)).max() < 0.15


def test_a_numeric_with_rare_values_far_out_is_fitted_without_its_histogram() -> None:
    """What few rows have far out is many standard deviations away: the normal law is no guide."""
    rng = np.random.default_rng(6)
    gain = np.where(rng.random(20_000) < 0.03, rng.uniform(2_000, 100_000, 20_000), 0.0)
    group = rng.choice(8, 20_000).astype(np.int32)
    years = rng.normal(40 + 2 * group, 10)
    schema = make_schema(
        [
            numeric_of("gain", 0, 100_000),
            numeric_of("years", 0, 110),
            categorical_of("group", list("abcdefgh")),
        ]
    )
    fit = _fit(schema, encode(schema, [gain, years, group]), noise=2e-3)
    assert fit.converged
    assert fit.fitted.misfit < 0.3
