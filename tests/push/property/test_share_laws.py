"""Laws of shares: cycles by words of every size, what is conserved, what one share more does."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dppca.common.kernel.privacy.noise import shares
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise.shares import gaussian_share, laplace_share
from tests.support.examples import examples

honests = st.integers(2, shares.MOST_HONEST)


@given(kind=st.sampled_from([np.uint16, np.uint32, np.uint64]), honest=honests, data=st.data())
def test_a_cycle_is_what_integers_of_any_size_say(
    kind: type[np.unsignedinteger], honest: int, data: st.DataObject
) -> None:
    whole = 1 << (8 * np.dtype(kind).itemsize)
    total = data.draw(st.integers(0, whole - 1) | st.integers(0, 40))
    bound = max(total, 1)
    # The last complete round ends where refusal begins.
    end = whole // bound * bound
    word = data.draw(
        st.integers(0, whole - 1) | st.integers(max(0, end - 3), min(end + 3, whole - 1))
    )
    per_owner = 2**16 // honest
    owner = data.draw(
        st.integers(0, 2**16 - 1)
        | st.sampled_from([per_owner - 1, per_owner, 2 * per_owner - 1, per_owner * honest - 1])
    )

    left, step = shares._next_cycle(
        np.array([total], dtype=kind),
        np.array([word], dtype=kind),
        np.array([owner], dtype=np.uint16),
        honest=honest,
    )

    if word >= end or owner >= per_owner * honest:
        expected = (total, 0)
    else:
        sign = {0: 1, 1: -1}.get(owner // per_owner, 0)
        expected = (word % bound, sign * (total - word % bound))
    assert (int(left[0]), int(step[0]) % 2**64) == (expected[0], expected[1] % 2**64)


@given(
    totals=st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 70_000), max_size=30),
    honest=honests,
    seed=st.integers(),
)
def test_no_share_is_larger_than_its_total_and_all_cycles_are_taken(
    totals: list[int], honest: int, seed: int
) -> None:
    left = np.array(totals, dtype=np.uint64)
    given_away = np.zeros_like(left)

    shares._finish_shares(left, given_away, honest, entropy=SeededEntropy(seed))

    assert not left.any()
    assert all(abs(int(x)) <= n for x, n in zip(given_away.view(np.int64), totals, strict=True))


@given(totals=st.lists(st.integers(0, 2**62), max_size=30), seed=st.integers())
def test_two_owners_take_every_cycle_between_them(totals: list[int], seed: int) -> None:
    left = np.array(totals, dtype=np.uint64)
    given_away = np.zeros_like(left)

    shares._finish_shares(left, given_away, 2, entropy=SeededEntropy(seed))

    # What the first has less what the second has, and both together have the total.
    for share, total in zip(given_away.view(np.int64).tolist(), totals, strict=True):
        assert (total - share) % 2 == 0


@settings(max_examples=examples(50))
@given(
    scale=st.integers(1, 2**62),
    honest=honests,
    size=st.integers(0, 300),
    seed=st.integers(),
    gaussian=st.booleans(),
)
def test_any_scale_and_number_of_owners_is_drawn_and_repeats(
    scale: int, honest: int, size: int, seed: int, gaussian: bool
) -> None:
    share = gaussian_share if gaussian else laplace_share
    scale = max(scale, 63 * honest) if gaussian else scale

    drawn = share(scale, honest, size, entropy=SeededEntropy(seed))

    assert drawn.shape == (size,)
    np.testing.assert_array_equal(drawn, share(scale, honest, size, entropy=SeededEntropy(seed)))


@pytest.mark.parametrize("scale", [1, 4, 20])
@pytest.mark.parametrize("honest", [2, 3, 9])
def test_neighbours_differ_by_no_more_under_h_or_h_plus_one_shares(scale: int, honest: int) -> None:
    # A change of 1 in a sum is charged 1 / scale: so much may probabilities differ by, not more.
    reach = 60 * scale
    one_side = stats.nbinom.pmf(np.arange(reach), 1 / honest, -math.expm1(-1 / scale))
    share = np.convolve(one_side, one_side[::-1])
    law = share
    for n_shares in range(2, honest + 2):
        law = np.convolve(law, share)
        loss = np.abs(np.diff(np.log(law[law.size // 2 - reach // 3 :][: 2 * (reach // 3)])))
        if n_shares >= honest:
            assert loss.max() <= (1 + 1e-6) / scale
        else:
            assert loss.max() > 1.05 / scale
