"""Products that outgrow what float64 holds exactly."""

import numpy as np

from dppca.common.kernel.moments.gram import GramSum


def test_products_beyond_the_integers_of_float64_stay_exact() -> None:
    rng, bound = np.random.default_rng(149), 1 << 20
    blocks = [rng.integers(bound // 2, bound, (1000, 3)) | 1 for _ in range(30)]
    grams = GramSum(3, largest=bound**2)
    for block in blocks:
        grams.add(block.astype(np.float32))

    rows = np.concatenate(blocks).astype(np.int64)
    assert grams.total().tolist() == (rows.T @ rows).tolist()
    assert (rows.T @ rows)[0, 0] > 1 << 53
    assert grams.sums().tolist() == rows.sum(axis=0).tolist()
