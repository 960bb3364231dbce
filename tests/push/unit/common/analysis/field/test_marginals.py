import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.field.marginals import apportion, balance


def move_one_by_one(values: list[list[float]], codes: list[int], quota: list[int]) -> list[int]:
    """What `balance` says that it does, a row at a time."""
    codes = list(codes)
    free = [most - codes.count(label) for label, most in enumerate(quota)]
    for over in [label for label, room in enumerate(free) if room < 0]:
        while free[over] < 0:
            rows = [row for row, code in enumerate(codes) if code == over]
            open_labels = [label for label, room in enumerate(free) if room > 0]
            wish = {row: max(open_labels, key=values[row].__getitem__) for row in rows}
            loss = {row: values[row][over] - values[row][wish[row]] for row in rows}
            for row in sorted(rows, key=loss.__getitem__)[: -free[over]]:
                if free[wish[row]] > 0:
                    codes[row] = wish[row]
                    free[wish[row]] -= 1
                    free[over] += 1
    return codes


@pytest.mark.parametrize("seed", range(40))
def test_rows_move_in_order_of_least_loss_until_each_label_has_its_quota(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_rows, n_labels = int(rng.integers(1, 120)), int(rng.integers(2, 12))
    values: NDArray[np.float32] = rng.normal(size=(n_rows, n_labels)).astype(np.float32)
    if seed % 2:  # many are alike
        values = np.round(values)
    quota = apportion(rng.dirichlet(np.ones(n_labels)), n_rows)
    codes = values.argmax(axis=1).astype(np.int32)
    kept = values.copy(), codes.copy()
    found = balance(values, codes, quota)
    assert found.tolist() == move_one_by_one(values.tolist(), codes.tolist(), quota.tolist())
    assert np.bincount(found, minlength=n_labels).tolist() == quota.tolist()
    assert (values == kept[0]).all()
    assert (codes == kept[1]).all()
