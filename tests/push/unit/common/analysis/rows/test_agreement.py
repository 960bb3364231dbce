"""What rows miss of a release is found in the rows themselves, whoever drew them."""

from collections.abc import Iterator

import numpy as np
import pytest

from dppca.common.analysis.field.missed import MOST_ROWS, Missed
from dppca.common.analysis.rows.agreement import compare_with_release
from dppca.common.analysis.rows.replicates import replicates
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.schema import Column
from dppca.common.kernel.schema.frames import read_frame
from tests.support.latent_rows import make_result, make_rows, save_rows
from tests.support.studies import make_study

FALSE_ALARMS = 0.0  # all draws have seeds
N = 2000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Published:
    study = make_study("latent", privacy={"mechanism": "laplace", "epsilon": "50"})
    path = save_rows(make_rows(N), tmp_path_factory.mktemp("site") / "rows.parquet")
    return Published(study, make_result(study, path))


def _columns(made: Published, *, shuffled: bool) -> list[Column]:
    rng = np.random.default_rng(4)
    columns = read_frame(make_rows(N), made.study.table)
    return [rng.permutation(each) for each in columns] if shuffled else list(columns)


def test_rows_without_relations_miss_those_of_the_release(made: Published) -> None:
    assert compare_with_release(made.result, made.study, _columns(made, shuffled=False)) == ()
    missed = compare_with_release(made.result, made.study, _columns(made, shuffled=True))
    assert len(missed) > 1
    assert [each.deviations for each in missed] == sorted(
        (each.deviations for each in missed), reverse=True
    )


def test_the_first_rows_alone_are_looked_at(made: Published) -> None:
    own, apart = (_columns(made, shuffled=each) for each in (False, True))
    times = MOST_ROWS // N + 1
    many = [np.concatenate([*[one] * times, other]) for one, other in zip(own, apart, strict=True)]
    cut = [column[:MOST_ROWS] for column in many]
    found = [compare_with_release(made.result, made.study, each) for each in (many, cut)]
    assert found[0] == found[1]


def test_a_table_beside_replicates_warns_of_what_it_misses(
    made: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replicates(made, 4, n_rows=50)
    missed = compare_with_release(made.result, made.study, _columns(made, shuffled=True))
    judged: Iterator[tuple[Missed, ...]] = iter([(), (), missed, missed])
    monkeypatch.setattr(
        "dppca.common.analysis.field.rows.find_missed", lambda *_, **__: next(judged)
    )
    assert not found.missed
    assert len(found.published) == 50, "and no warning"
    assert found.missed == missed
    with pytest.warns(UserWarning, match=f"{missed[0].relation} \\(.*not from the rows"):
        assert len(found.published) == 50
