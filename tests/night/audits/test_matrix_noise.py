"""Matrix noise against what is known of it: exact laws, millions of draws, many schemas."""

from fractions import Fraction
from math import log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import k0

from dppca.common.kernel.privacy.matrix_noise import matrix_space
from dppca.common.kernel.privacy.noise import wishart
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.wishart import FRACTION_BITS, wishart_difference
from dppca.common.kernel.schema.layout import Layout
from tests.support.matrix_rows import coded_row, make_ball, make_layout, space_row

FALSE_ALARMS = 0.0  # all that is random has a seed
SCALE = 1000
Matrices = NDArray[np.float64]


def drawn_pair(d: int, n: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Matrices, Matrices]:
    """Return n draws of both Wishart matrices of the product's sampler, for c = 1: (n, d, d)."""
    found, gram = list[NDArray[np.object_]](), wishart._gram

    def kept(drawn: object, side: int) -> NDArray[np.object_]:
        found.append(gram(drawn, side))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(wishart, "_gram", kept)
    entropy, pairs = SeededEntropy(d), list[tuple[Matrices, Matrices]]()
    for _ in range(n):
        found.clear()
        z = wishart_difference(SCALE, d, d + 1, entropy=entropy) / (SCALE * 2.0**FRACTION_BITS)
        first, second = (np.asarray(each, float) for each in found)
        unit = np.abs(z).max() / np.abs(first - second).max()  # of the digits that were drawn
        pairs.append((first * unit, second * unit))
    return np.stack([each[0] for each in pairs]), np.stack([each[1] for each in pairs])


@pytest.mark.parametrize(("d", "n"), [(2, 4000), (3, 5000), (4, 9000), (5, 20_000)])
def test_draws_that_the_exact_sampler_keeps_have_the_nuclear_law(
    d: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Z is kept where the second matrix less the negative part of Z is positive semidefinite. It
    # then has the density exp(-|Z|_* / 2), so |Z|_* / 2 has the gamma law of D = d (d + 1) / 2.
    first, second = drawn_pair(d, n, monkeypatch)
    values, vectors = np.linalg.eigh(first - second)
    negative = np.einsum("nij,nj,nkj->nik", vectors, np.maximum(-values, 0), vectors)
    left = np.linalg.eigvalsh(second - negative)[:, 0]
    kept = np.abs(values[left >= -1e-9 * np.abs(values).max(axis=1)]).sum(axis=1) / 2

    assert len(kept) > 200
    assert stats.kstest(kept, stats.gamma(d * (d + 1) / 2).cdf).pvalue > 1e-4
    # The kept ones lose columns where the sampler lacks one: this test would see it.
    assert stats.kstest(kept, stats.gamma(d * (d + 1) / 2 + 1).cdf).pvalue < 1e-9


def test_one_column_in_one_dimension_is_laplace_noise_to_four_million_draws() -> None:
    # d = 1, m = 2: the difference of two chi-squares of 2 degrees is Laplace noise of scale 2.
    draws = simulated(1, 2, 4_000_000, seed=1)[:, 0, 0]
    grid = np.linspace(-20, 20, 801)

    found = np.searchsorted(np.sort(draws), grid) / len(draws)

    assert np.abs(found - stats.laplace(scale=2).cdf(grid)).max() < 2.5 / sqrt(len(draws))


@pytest.mark.parametrize("d", [1, 2])
def test_no_event_tells_four_million_draws_apart_by_more_than_the_claim(d: int) -> None:
    # Neighbours are Z and Z + D with |D|_* = 2, so epsilon is 1: events are cells of the diagonal.
    moved = np.diag([1.0, -1.0] if d == 2 else [2.0])
    z = simulated(d, d + 1, 4_000_000, seed=2)[:, range(d), range(d)]
    edges = [np.r_[-np.inf, np.linspace(-12, 12, 17), np.inf]] * d
    here, there = (np.histogramdd(each, edges)[0] for each in (z, z + np.diag(moved)))
    seen = (here > 100) & (there > 100)
    ratios = np.abs(np.log(here[seen] / there[seen]))
    errors = np.sqrt(1 / here[seen] + 1 / there[seen])

    assert np.max(ratios - 6 * errors) < 1  # never above, by six deviations
    assert np.max(ratios + errors) > 0.9  # and some cell comes close


def test_as_many_columns_as_dimensions_are_not_private() -> None:
    # d = 1: the density K_0(|z| / 2) / (2 pi) has a pole, so some pair is beyond any claim.
    z = np.geomspace(1e-12, 1, 200)
    excess = np.log(k0(z / 2) / k0((z + 1e-3) / 2)) - 1e-3 / 2
    assert excess.max() > 1
    # d = 2, by a search over events near 0 that four million draws decide.
    draws, moved = simulated(2, 2, 4_000_000, seed=3), np.diag([0.2, -0.2])
    beyond = -np.inf
    for size in (0.09, 0.12, 0.16):
        here = np.count_nonzero(np.linalg.norm(draws, axis=(1, 2)) < size)
        there = np.count_nonzero(np.linalg.norm(draws + moved, axis=(1, 2)) < size)
        if there > 100:
            error = sqrt(1 / here + 1 / there)
            beyond = max(beyond, log(here / there) - 0.4 / 2 - 6 * error)
    assert beyond > 0


@pytest.mark.parametrize("seed", range(4))
def test_no_rows_of_twenty_thousand_schemas_are_further_apart_than_is_claimed(seed: int) -> None:
    rng, closest = np.random.default_rng(seed), 0.0
    for _ in range(5000):
        layout = random_layout(rng)
        c = int(rng.integers(1, 5)) if layout.with_count else 1
        space = matrix_space(layout, rows_counted=c)
        replaced = matrix_space(layout, rows_counted=c, replaced=True)
        rows = np.stack([space_row(layout, coded_row(layout, rng)) for _ in range(6)])
        rows = np.concatenate([rows, [furthest(layout, rows[0])]])
        lengths, crossed = np.sum(rows**2, axis=1), rows @ rows.T
        moved = np.sqrt(np.maximum(np.add.outer(lengths, lengths) ** 2 - 4 * crossed**2, 0)).max()
        weights = rng.dirichlet(np.ones(len(rows)), 2)  # two people's averages
        people = np.abs(np.linalg.eigvalsh((rows.T * (weights[0] - weights[1])) @ rows)).sum()
        one = float(replaced.nuclear) / (1 if not layout.with_count else c)
        assert max(moved, people) <= one * (1 + 1e-12)
        assert not layout.with_count or c * lengths.max() <= float(space.nuclear) * (1 + 1e-12)
        closest = max(closest, 0.0 if layout.unit_ball else moved / one)
    assert closest > 0.998


def simulated(d: int, m: int, n: int, *, seed: int) -> Matrices:
    rng = np.random.default_rng(seed)
    parts = []
    for size in [250_000] * (n // 250_000):
        g, h = rng.standard_normal((2, size, d, m))
        parts.append(g @ g.swapaxes(1, 2) - h @ h.swapaxes(1, 2))
    return np.concatenate(parts)


def random_layout(rng: np.random.Generator) -> Layout:
    """Return a layout with any mix of attributes, of up to 40, or a ball."""
    counted = bool(rng.integers(2))
    if rng.random() < 0.1:
        weight = Fraction(int(rng.integers(1, 33)), 8)
        return make_ball(int(rng.integers(1, 12)), weight, counted=counted)
    sorts: list[str | int] = ["num", "bin", "mis", 2, 3, 4, 7]
    n = int(rng.integers(1, 41))
    attributes = [sorts[each] for each in rng.integers(0, len(sorts), n)]
    targets = tuple(sorted(rng.choice(n, min(n, int(rng.integers(0, 4))), replace=False).tolist()))
    return make_layout(
        attributes,
        weight=Fraction(int(rng.integers(3, 17)), 8),
        targets=targets,
        target_weight=int(rng.integers(2, 5)) if targets else 1,
        counted=counted,
    )


def furthest(layout: Layout, u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a row that is nearly orthogonal to another one: attributes turn until it is."""
    v, first = u.copy(), int(layout.with_sums)
    if layout.unit_ball:
        v[first:] *= -1
        return v
    for start, stop in sorted(layout.groups, key=lambda each: each[0] - each[1]):
        place = slice(start + first, stop + first)
        turned = -u[place] if stop - start == 1 else np.roll(u[place], 1)
        if "missing" in {str(kind.value) for kind in layout.kinds[start:stop]}:
            turned = np.where(u[place] != 0, -u[place], 0)
            turned[0] = abs(turned[0])
        other = v.copy()
        other[place] = turned
        if abs(u @ other) < abs(u @ v):
            v = other
    return v
