"""Laws of noise are compared by the covariance, after least squares, and drafts are told."""

from decimal import Decimal

import numpy as np
import pytest

from dppca.common.analysis.spectrum.noise import NoiseSource
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema.layout import ColumnKind
from dppca.curator.planning.covariance_noise import compare_laws, covariance_noise, joint_share
from tests.support.studies import CENSUS, binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all noise has a seed
BLOCKS = [categorical_of(name, list("abcdefgh")) for name in ("u", "v", "w")]
MANY = [binary_of(f"b{i}", ["no", "yes"]) for i in range(16)]


@pytest.mark.parametrize(
    ("mechanism", "targets"),
    [("laplace", []), ("matrix-laplace", []), ("matrix-laplace", ["x", "b0"])],
)
def test_figure_is_the_noise_of_simulated_covariances(mechanism: str, targets: list[str]) -> None:
    # Numbers and yes/no columns around 0: least squares has nothing to add.
    attributes = [numeric_of("x", 0, 1), numeric_of("y", 0, 1), *MANY[:3]]
    study = make_study(attributes, mechanism=mechanism, targets=targets)
    layout, law = study.table.layout, calibrate(study).law
    source = NoiseSource(
        np.random.default_rng(2),
        layout,
        law=law,
        width=law.width,
        owner_rows=[5000],
        own_means=False,
    )
    counted = np.triu(np.ones((5, 5)), 1)
    numbers = [i for i, kind in enumerate(layout.kinds) if kind is ColumnKind.NUMERIC]
    counted[numbers, numbers] = 1
    drawn = np.stack([source.draw().second[counted > 0] for _ in range(1500)])

    found = covariance_noise(study, [5000])

    assert found == pytest.approx(np.sqrt((drawn**2).mean()), rel=0.05)


def test_many_columns_want_noise_of_the_whole_release_and_few_blocks_do_not() -> None:
    many = compare_laws(make_study(MANY, sum_weight=0.75), [5000], epsilon=Decimal(1), delta=None)
    few = compare_laws(make_study(BLOCKS), [5000], epsilon=Decimal(1), delta=None)

    assert many["matrix-laplace"] < 0.7 * many["laplace"]
    assert few["matrix-laplace"] > few["laplace"]
    assert compare_laws(
        make_study(MANY), [5000], epsilon=Decimal(1), delta=Decimal("1e-9")
    ).keys() == {
        "laplace",
        "gaussian",
        "matrix-laplace",
    }


def test_a_law_that_the_study_cannot_have_is_not_compared() -> None:
    study = make_study(CENSUS, sum_weight=0.25)

    assert compare_laws(study, [500], epsilon=Decimal(1), delta=None).keys() == {"laplace"}


def test_a_draft_is_told_of_a_law_that_is_clearly_better() -> None:
    schema = {"max_rows_per_person": 1, "sum_weight": 0.5, "attributes": MANY}
    found = joint_share(schema)

    assert found is not None
    assert found[0] == "matrix-laplace"
    assert 0.3 < found[1] < 0.7
    assert joint_share({**schema, "attributes": BLOCKS}) is None
