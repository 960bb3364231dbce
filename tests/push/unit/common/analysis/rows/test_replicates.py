"""Replicates vary as the noise does, by public seeds alone; `combine` is the stated rule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from dppca.common.analysis.rows import synthesis
from dppca.common.analysis.rows.replicates import (
    Combined,
    _add_noise,
    combine,
    draw_replicate,
    replicates,
)
from dppca.common.analysis.rows.synthesis import released_noise
from dppca.common.kernel.attestation.claims import Replicate, use_text
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from tests.support.examples import examples
from tests.support.latent_rows import make_result, make_rows, save_rows
from tests.support.studies import make_study
from tests.support.tables import drawn_table

FALSE_ALARMS = 0.0  # all draws have seeds
SHA256 = "ab" * 32
SMALL = st.floats(-1e3, 1e3)
SIZES = st.floats(1e-6, 1e3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Published:
    study = make_study("latent")
    path = save_rows(make_rows(500), tmp_path_factory.mktemp("site") / "rows.parquet")
    return Published(study, make_result(study, path))


@settings(max_examples=examples(60), deadline=None)
@given(
    each=arrays.arrays(np.float64, st.tuples(st.integers(4, 9), st.integers(1, 3)), elements=SMALL),
    u=SIZES,
    rows=st.integers(1, 10**6),
    study_rows=st.integers(1, 10**6),
    alpha=st.sampled_from([0.01, 0.05, 0.2]),
)
def test_the_interval_is_that_of_the_rule(
    each: np.ndarray, u: float, rows: int, study_rows: int, alpha: float
) -> None:
    published = each.mean(axis=0) + 1, np.full(each.shape[1], u)
    found = combine(each, each**2, published=published, rows=rows, study_rows=study_rows)
    for j, (low, high) in enumerate(found.conf_int(alpha)):
        between = float(np.var(each[:, j], ddof=1))
        sampling = rows / study_rows * u
        ratio = 1 + sampling / between if between else np.inf
        df = np.inf if ratio > 1e150 else (len(each) - 1) * ratio**2
        reach = stats.t.ppf(1 - alpha / 2, df) * np.sqrt(sampling + between)
        np.testing.assert_allclose([low, high], published[0][j] + np.array([-reach, reach]))
        own = stats.t.ppf(1 - alpha / 2, len(each) - 1) * np.sqrt(between)
        low, high = found.conf_int(alpha, these_rows=True)[j]
        np.testing.assert_allclose(high - low, 2 * own, atol=1e-9)


def test_one_number_needs_no_array() -> None:
    found = combine([1.0, 2.0, 3.0, 4.0], [1.0] * 4, published=(2.0, 1.0), rows=10, study_rows=20)
    assert isinstance(found, Combined)
    assert found.conf_int().shape == (2,)
    assert found.bse == pytest.approx(np.sqrt(0.5 + 5 / 3))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"estimates": [1.0] * 3, "variances": [1.0] * 3}, "4 replicates at least"),
        ({"estimates": 1.0}, "4 replicates at least"),
        ({"variances": [1.0] * 5}, r"shape \(4,\) and variances of shape \(5,\)"),
        ({"published": ([1.0, 2.0], [1.0, 1.0])}, "do not belong"),
        ({"estimates": [1.0, np.nan, 1.0, 1.0]}, "the estimator failed on a table"),
        ({"published": (1.0, np.inf)}, "the estimator failed on a table"),
        ({"variances": [1.0, -1.0, 1.0, 1.0]}, "a variance is negative"),
        ({"published": (1.0, -1.0)}, "a variance is negative"),
        ({"rows": 0}, "1 at least"),
        ({"study_rows": 0}, "1 at least"),
    ],
)
def test_what_cannot_be_combined_is_refused(changes: dict[str, object], says: str) -> None:
    usual = {"estimates": [1.0] * 4, "variances": [1.0] * 4, "published": (1.0, 1.0)}
    with pytest.raises(SettingError, match=says):
        combine(**{**usual, "rows": 10, "study_rows": 10, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 95.0])
def test_an_impossible_level_is_refused(alpha: float) -> None:
    found = combine([1.0] * 4, [1.0] * 4, published=(1.0, 1.0), rows=1, study_rows=1)
    with pytest.raises(SettingError, match="alpha"):
        found.conf_int(alpha)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_noise_that_is_added_is_the_studys_law(made: Published, mechanism: str) -> None:
    delta = {} if mechanism == "laplace" else {"delta": "1e-6"}
    study = make_study("latent", privacy={"mechanism": mechanism, "epsilon": "1", **delta})
    result = replace(made.result, header=replace(made.result.header, study_digest=study.digest))
    rng = np.random.default_rng(1)
    added = np.array([_add_noise(Published(study, result), rng).pooled for _ in range(200)])
    added = (added - result.pooled) / 4**study.table.layout.resolution_bits / result.header.n_rows
    wanted = released_noise(result, study)
    assert np.sqrt((added**2).mean()) == pytest.approx(wanted, rel=0.03)
    assert abs(added.mean()) < 4 * wanted / np.sqrt(added.size)


def test_a_replicate_follows_from_the_release_and_its_number_alone(made: Published) -> None:
    drawn = {
        (number, of): drawn_table(
            draw_replicate(made.result, made.study, Replicate(number, of, SHA256), n_rows=50)
        )
        for number, of in ((1, 4), (1, 5), (2, 5))
    }
    assert drawn[1, 4] == drawn[1, 5]
    assert drawn[1, 5] != drawn[2, 5]


def test_replicates_have_the_receipt_of_their_release_and_of_their_place(made: Published) -> None:
    found = replicates(made, 4, n_rows=50)
    assert (len(found), found.n_rows, found.study_rows) == (4, 50, 500)
    tables = [found.published, *found]
    assert [len(each) for each in tables] == [50] * 5
    assert all(one != other for i, one in enumerate(tables) for other in tables[:i])
    which = Replicate(2, 4, found.digest)
    drawn = draw_replicate(made.result, made.study, which, n_rows=50)
    assert drawn_table(drawn) == tables[2]
    assert drawn.claims["use"] == use_text(which)
    assert "no further charge" in use_text(which)
    assert "not more rows" in use_text(which)


@pytest.mark.parametrize("count", [3, 0, 1001, 4.0])
def test_fewer_than_four_or_too_many_replicates_are_refused(made: Published, count: int) -> None:
    with pytest.raises(SettingError, match="from 4 to 1000 can be combined"):
        replicates(made, count)


def test_rows_without_a_field_have_no_replicates(
    made: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "fit_released", lambda *_, **__: None)
    with pytest.raises(SettingError, match="replicate 1 cannot be drawn from a field"):
        next(iter(replicates(made, 4, n_rows=10)))
