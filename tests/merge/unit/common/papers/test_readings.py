"""Contribution rates of signed eigenvalues and of their magnitudes, in published forms."""

from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.estimators.base.projection import by_magnitude
from dppca.common.analysis.spectrum.pca import Decomposition
from dppca.common.kernel.errors import SettingError
from dppca.common.papers import AGSVM, DPPCASVM, PPCADPMH, MODSuLQSVM
from tests.support.studies import binary_of, make_schema

pytestmark = pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")
GAUSSIAN = {"delta": "1e-6"}
MACHINES: list[tuple[Any, dict[str, str]]] = [
    (DPPCASVM, {}),
    (AGSVM, GAUSSIAN),
    (MODSuLQSVM, GAUSSIAN),
]


def test_magnitudes_descend_and_keep_their_vectors() -> None:
    parts = Decomposition(np.array([2.0, 0.5, -1.0, -3.0]), np.eye(4))
    found = by_magnitude(parts)
    assert found.eigenvalues.tolist() == [3, 2, 1, 0.5]
    assert found.vectors.argmax(axis=1).tolist() == [3, 0, 2, 1]


@pytest.mark.parametrize(("kind", "more"), MACHINES, ids=lambda each: getattr(each, "method", ""))
def test_a_machine_keeps_what_a_singular_value_decomposition_would(
    kind: Any, more: dict[str, str]
) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 12)) / 12
    y = np.where(X[:, 0] > 0, "yes", "no")
    rate = 0.8
    settings = {"epsilon": "0.1", "variant": "published", "contribution_rate": rate, **more}
    settings |= {"max_rows_per_person": 1, "random_state": 7}
    signed, sized = (kind(**settings, rate_of=each).fit(X, y) for each in ("signed", "magnitude"))
    assert np.array_equal(signed.second_moment_, sized.second_moment_)
    assert signed.eigenvalues_[-1] < 0
    _, singular, vectors = np.linalg.svd(sized.second_moment_)
    share = np.cumsum(singular) / singular.sum()
    count = int(np.argmax(share >= rate)) + 1
    assert len(sized.components_) == count > len(signed.components_)
    overlap = np.abs(sized.components_ @ vectors[:count].T)
    assert np.allclose(overlap, np.eye(count), atol=1e-6)


def test_ppca_dp_mh_counts_by_either_reading() -> None:
    schema = make_schema([binary_of(f"b{n}", [0, 1]) for n in range(10)], max_rows_per_person=1)
    rows = np.random.default_rng(2).integers(0, 2, (90, 10)).astype(float)
    settings: dict[str, Any] = {"epsilon": "0.1", "variant": "published", "schema": schema}
    signed, sized = (
        PPCADPMH(**settings, rate_of=each, random_state=3).fit(rows)
        for each in ("signed", "magnitude")
    )
    assert np.array_equal(np.sort(np.abs(signed.eigenvalues_))[::-1], sized.eigenvalues_)
    shares = sized.explained_variance_ratio_
    assert shares.sum() >= 0.85 > shares[:-1].sum()
    assert len(sized.components_) > len(signed.components_)


@pytest.mark.parametrize("kind", [DPPCASVM, PPCADPMH])
def test_a_reading_is_of_the_published_form_and_one_of_two(kind: Any) -> None:
    X = np.random.default_rng(1).normal(size=(40, 3))
    y = X[:, 0] > 0
    asked = {"epsilon": "1", "max_rows_per_person": 1}
    with pytest.raises(SettingError, match="is a reading of the published form"):
        kind(**asked, rate_of="magnitude").fit(X, y)
    with pytest.raises(SettingError, match="rate_of must be 'signed' or 'magnitude', not 'size'"):
        kind(**asked, variant="published", rate_of="size").fit(X, y)
