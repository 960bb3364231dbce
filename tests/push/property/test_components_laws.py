"""Laws of decomposition, of quotas and of decoding, whatever the noise has made of the moments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.analysis.field.discretize import discretize
from dppca.common.analysis.field.marginals import (
    apportion,
    assign,
    categorical_shares,
    split_by_score,
)
from dppca.common.analysis.spectrum.pca import count_components, decompose
from dppca.common.kernel.schema.decoding import decode_columns
from dppca.common.kernel.study import ComponentRule
from tests.support.examples import examples
from tests.support.faults import find_faults
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

_SEEDS = st.integers(0, 2**32 - 1)
_RULES = st.one_of(
    st.builds(
        ComponentRule,
        contribution_rate=st.floats(0.01, 0.99),
        trace=st.sampled_from(["positive", "signed"]),
    ),
    st.builds(ComponentRule, count=st.integers(1, 50)),
    st.just(ComponentRule(above_noise=True)),
)
_SPECTRA = st.lists(st.floats(-100, 100), min_size=2, max_size=12).map(
    lambda values: np.sort(np.array(values))[::-1]
)


def _symmetric(seed: int, p: int) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(p, p))
    return matrix + matrix.T


@given(_SEEDS, st.integers(2, 9))
def test_a_decomposition_gives_the_covariance_back(seed: int, p: int) -> None:
    covariance = _symmetric(seed, p)
    found = decompose(covariance)
    rebuilt = (found.vectors.T * found.eigenvalues) @ found.vectors
    np.testing.assert_allclose(rebuilt, covariance, atol=1e-10)
    np.testing.assert_allclose(found.vectors @ found.vectors.T, np.eye(p), atol=1e-10)
    assert np.all(np.diff(found.eigenvalues) <= 0)
    assert np.all(found.vectors[np.arange(p), np.abs(found.vectors).argmax(axis=1)] > 0)


@given(_SEEDS, st.integers(2, 9), st.integers(-20, 20))
def test_scaling_a_covariance_scales_its_eigenvalues_alone(seed: int, p: int, power: int) -> None:
    covariance = _symmetric(seed, p)
    one, other = decompose(covariance), decompose(covariance * 2.0**power)
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues * 2.0**power, rtol=1e-9)


@given(_SPECTRA, _RULES, st.floats(0, 100))
def test_every_rule_keeps_between_one_and_all_but_one_and_no_negative_direction(
    spectrum: np.ndarray, rule: ComponentRule, edge: float
) -> None:
    k = count_components(spectrum, rule, noise_edge=edge)
    assert 1 <= k <= len(spectrum) - 1
    assert k == 1 or spectrum[k - 1] > 0


@given(_SPECTRA, st.floats(0.01, 0.98), st.floats(0, 0.01))
def test_a_larger_rate_keeps_no_fewer_components(
    spectrum: np.ndarray, rate: float, more: float
) -> None:
    smaller = count_components(spectrum, ComponentRule(contribution_rate=rate), noise_edge=0)
    larger = count_components(spectrum, ComponentRule(contribution_rate=rate + more), noise_edge=0)
    assert smaller <= larger


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=8), st.integers(1, 500))
def test_quotas_sum_to_the_rows_and_are_off_by_less_than_one(means: list[float], n: int) -> None:
    shares = categorical_shares(np.array(means))
    quota = apportion(shares, n)
    assert shares.sum() == pytest.approx(1)
    assert quota.sum() == n
    assert quota.min() >= 0
    assert np.abs(quota - shares * n).max() < 1 + 1e-9


@given(
    _SEEDS,
    st.integers(3, 7),
    st.integers(1, 300),
    st.sampled_from(["normal", "constant", "cauchy", "huge"]),
)
def test_labels_meet_their_quotas_exactly_whatever_the_scores(
    seed: int, k: int, n: int, kind: str
) -> None:
    rng = np.random.default_rng(seed)
    scores = {
        "normal": rng.normal(size=(n, k)),
        "constant": np.ones((n, k)),
        "cauchy": rng.standard_cauchy(size=(n, k)),
        "huge": 1e6 * rng.normal(size=(n, k)) * np.arange(k),
    }[kind]
    quota = apportion(rng.dirichlet(np.full(k, 0.3)), n)
    np.testing.assert_array_equal(np.bincount(assign(scores, quota), minlength=k), quota)


@settings(max_examples=examples(30))
@given(_SEEDS)
def test_labels_nearly_maximise_the_scores_among_all_that_meet_the_quotas(seed: int) -> None:
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(seed)
    n, k = 60, 4
    scores = rng.normal(size=(n, k))
    quota = apportion(rng.dirichlet(np.ones(k)), n)
    slots = np.repeat(np.arange(k), quota)
    rows, chosen = linear_sum_assignment(scores[:, slots], maximize=True)
    best = scores[rows, slots[chosen]].sum()
    ours = scores[np.arange(n), assign(scores, quota)].sum()
    assert best - 0.05 * n * scores.std() <= ours <= best + 1e-9


@given(_SEEDS, st.integers(1, 200))
def test_the_highest_scores_get_the_second_label(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    second = int(rng.integers(0, n + 1))
    codes = split_by_score(scores, second)
    assert codes.sum() == second
    if 0 < second < n:
        assert scores[codes == 1].min() >= scores[codes == 0].max()


_MIXED = make_schema(
    [
        numeric_of("x", -1, 3),
        binary_of("b", [0, 1]),
        categorical_of("c", list("uvw")),
        categorical_of("d", list("rstu")),
    ],
    resolution_bits=6,
)


@settings(max_examples=examples(25))
@given(
    _SEEDS,
    st.integers(1, 60),
    st.sampled_from([0.01, 1.0, 1e3, 1e9]),
    st.sampled_from([0.0, 0.05, 10.0]),
)
def test_decoded_rows_are_valid_and_meet_the_marginals_however_wild_the_release(
    seed: int, n: int, size: float, noise: float
) -> None:
    layout = _MIXED.layout
    p = layout.n_columns
    rng = np.random.default_rng(seed)
    mean = size * rng.normal(size=p)
    columns = discretize(
        size * rng.normal(size=(n, p)) + rng.normal(size=p),
        layout,
        mean=mean,
        second=size * _symmetric(seed, p),
        entry_noise=noise,
        rng=rng,
    )
    faults = find_faults(_MIXED, decode_columns(_MIXED, columns)).values()
    assert not any(f.missing.any() or f.invalid.any() or f.out.any() for f in faults)
    assert columns[0].mean() == pytest.approx(np.clip(mean[0], -0.5, 0.5), abs=1e-9 + 1e-15 * size)
    assert abs(columns[1].sum() - np.clip(mean[1] + 0.5, 0, 1) * n) <= 0.5
    for column, (start, stop) in zip(columns[2:], layout.groups[2:], strict=True):
        shares = categorical_shares(mean[start:stop])
        assert np.abs(np.bincount(column, minlength=stop - start) - shares * n).max() < 1 + 1e-9
