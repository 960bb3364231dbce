"""What stands above the noise is there, and what is said to be on its own is so in the rows."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.field.rows import fit_released
from dppca.common.analysis.field.targets import coupling_scales, field_targets
from dppca.common.analysis.field.visibility import FAINT, Visibility, find_visible
from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.schema import Column, Schema, encode
from tests.support.noise import gaussian_tail
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

N_ROWS = 20_000
RELATED = np.arange(4)
"""Attributes that have relations with each other; the others have none."""


def _schema(upper: float) -> Schema:
    return make_schema(
        [
            numeric_of("balance", 0, upper),
            numeric_of("income", 0, 8),
            binary_of("default", [0, 1]),
            categorical_of("segment", list("abc")),
            binary_of("gift", [0, 1]),
            categorical_of("region", list("uvwxyz")),
            numeric_of("age", 18, 100),
        ]
    )


def _columns(rng: np.random.Generator) -> list[Column]:
    """A common factor of the first four, of which balances are log-normal; all else by itself."""
    factor = rng.standard_normal(N_ROWS)
    mixed = [0.9 * factor + 0.436 * rng.standard_normal(N_ROWS) for _ in range(4)]
    return [
        np.exp(mixed[0]),
        np.clip(4 + 1.5 * mixed[1], 0, 8),
        (mixed[2] > 0.8).astype(np.int32),
        np.digitize(mixed[3], [-0.5, 0.6]).astype(np.int32),
        (rng.random(N_ROWS) < 0.3).astype(np.int32),
        rng.choice(6, N_ROWS, p=[0.3, 0.25, 0.2, 0.15, 0.07, 0.03]).astype(np.int32),
        np.clip(rng.normal(45, 14, N_ROWS), 18, 100),
    ]


def _release(
    schema: Schema, rng: np.random.Generator, *, noise: float, laplace_noises: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and products of new rows, with noise of one standard deviation on every entry."""
    layout = schema.layout
    packed = compute_moments(encode(schema, _columns(rng)), layout).packed
    mean, second = unpack(packed, N_ROWS, layout)
    assert mean is not None
    p = len(mean)
    if laplace_noises is None:
        draws = rng.normal(scale=noise, size=(p + 1, p))
    else:
        scale = noise / np.sqrt(2 * laplace_noises)
        draws = rng.laplace(scale=scale, size=(laplace_noises, p + 1, p)).sum(axis=0)
    half = np.triu(draws[1:])
    return mean + draws[0], second + half + np.triu(half, 1).T


def _tail(laplace_noises: int | None) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    law = GaussianLaw if laplace_noises is None else LaplaceLaw
    return partial(law.tail_probability, n=laplace_noises or 1)


def _judge(
    schema: Schema, seed: int, *, noise: float, laplace_noises: int | None = None
) -> Visibility:
    rng = np.random.default_rng([seed, 11])
    mean, second = _release(schema, rng, noise=noise, laplace_noises=laplace_noises)
    groups = schema.layout.groups
    targets = field_targets(
        schema, mean=mean, second=second, histograms=[None] * len(groups), entry_noise=noise
    )
    scales = coupling_scales(targets, groups)
    return find_visible(
        targets, scales, groups, n_rows=N_ROWS, tail_probability=_tail(laplace_noises)
    )


@pytest.mark.parametrize(("noise", "laplace_noises"), [(0.0004, None), (0.0004, 1), (0.01, 3)])
def test_what_stands_above_the_noise_is_so_but_for_a_twentieth(
    noise: float, laplace_noises: int | None
) -> None:
    """The mean share of false calls over 30 draws: seeds are fixed, so this cannot fail by chance.

    Draws of the rows and of the noise are new each time.
    """
    schema, shares, found = _schema(60), [], []
    for seed in range(30):
        above = _judge(schema, seed, noise=noise, laplace_noises=laplace_noises).above
        np.testing.assert_array_equal(above, above.T)
        right = above[np.ix_(RELATED, RELATED)].sum()
        shares.append(1 - right / above.sum() if above.any() else 0.0)
        found.append(right / 12)
    assert np.mean(shares) <= 0.05
    assert np.mean(found) > (0.9 if noise < 0.001 else 0.15)


def _shown(schema: Schema, seed: int, noise: float) -> NDArray[np.float64]:
    """The largest correlation of each attribute with a column of another in rows of the field."""
    rng = np.random.default_rng([seed, 11])
    mean, second = _release(schema, rng, noise=noise, laplace_noises=None)
    fit = fit_released(
        schema,
        mean=mean,
        second=second,
        histograms=[None] * 7,
        entry_noise=noise,
        n_rows=16_384,
        rng=rng,
        tail=gaussian_tail,
    )
    assert fit is not None
    assert fit.converged
    blocks = list(fit.blocks(16_384, rng=rng))
    columns = [np.concatenate(each) for each in zip(*blocks, strict=True)]
    layout = schema.layout
    correlation = np.abs(np.corrcoef(encode(schema, columns).T))
    correlation[np.equal.outer(layout.attribute_of, layout.attribute_of)] = 0
    return np.array([correlation[start:stop].max() for start, stop in layout.groups])


def test_rows_have_on_its_own_what_is_said_to_be_so() -> None:
    """Balances fill a 60th of their bounds, and lose what they show where they fill more."""
    narrow, wide, noise = _schema(240), _schema(12), 0.004
    for seed in range(3):
        lost, kept = (_judge(schema, seed, noise=noise) for schema in (narrow, wide))
        assert lost.alone[0]
        assert not kept.alone[:3].any()
        assert kept.above[0, 1]
        assert not lost.alone[1]
        assert lost.noise[0] > 4 * kept.noise[0]
        shown = _shown(narrow, seed, noise)
        assert (shown[lost.alone] < FAINT + 0.05).all()
        assert shown[1] > 0.3
        assert _shown(wide, seed, noise)[0] > 0.3


def test_the_noise_of_a_correlation_is_that_of_the_pair_in_the_middle() -> None:
    """Of binaries with even shares: the product's noise over a quarter; shares add little."""
    schema = make_schema([binary_of(f"b{i}", [0, 1]) for i in range(5)])
    groups, noise = schema.layout.groups, 0.003
    targets = field_targets(
        schema,
        mean=np.zeros(5),
        second=np.eye(5) / 4,
        histograms=[None] * 5,
        entry_noise=noise,
    )
    found = find_visible(
        targets,
        coupling_scales(targets, groups),
        groups,
        n_rows=N_ROWS,
        tail_probability=_tail(None),
    )
    np.testing.assert_allclose(found.noise, 4 * noise, rtol=1e-6)
    assert not found.above.any()
    assert found.alone.all()
