"""Components that noise and sampling cannot tell apart, for every face."""

import numpy as np
import pytest

from dppca.common.analysis.loadings import component_lines
from dppca.common.verification.components import kept_components
from dppca.deploy.simulation.notebook import Simulation, simulate

N = 3000
STUDY = """\
name: two
owners: [a, b, c]
privacy: {mechanism: laplace, epsilon: "8"}
components: {count: 2}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: age, type: numeric, lower: 0, upper: 1}
    - {name: sex, type: binary, values: [f, m]}
    - {name: smokes, type: binary, values: ["no", "yes"]}
"""


def run(*, related: float, seed: int) -> Simulation:
    """A study of two yes/no columns that agree in a part of the rows, else are independent."""
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 2, N)
    smokes = np.where(rng.random(N) < related, sex, rng.integers(0, 2, N))
    rows = {
        "age": np.clip(rng.normal(0.5, 0.1, N), 0, 1),
        "sex": np.array(["f", "m"])[sex],
        "smokes": np.array(["no", "yes"])[smokes],
    }
    tables = {
        owner: {name: column[start::3].tolist() for name, column in rows.items()}
        for start, owner in enumerate("abc")
    }
    return simulate(tables, STUDY)


@pytest.mark.parametrize("seed", [1, 2, 3])  # one of 300 gaps of two equal components is larger
def test_equal_components_are_any_mixture_at_every_face(seed: int) -> None:
    made = run(related=0.0, seed=seed)
    found = made.components
    assert found.mixed == ((1, 2), (1, 2))
    said = "components 1 and 2 cannot be told apart: any mixture of them is as good"
    kept = kept_components(found.released.result, made.study)
    assert [each.meaning for each in kept] == [f"{said}, so its loadings say nothing."] * 2
    lines = component_lines(kept, details=False)
    assert lines[1::2] == [f"  {said}"] * 2
    for text in (repr(found), found._repr_html_()):
        assert said in text
        assert "sex=m" not in text
    chart = made.plot_loadings().svg
    assert "any mixture of 1, 2 is as good" in chart
    assert "sex" not in chart
    (axes,) = made.plot_biplot().axes
    assert axes.get_title().replace("\n", " ") == said
    assert not axes.texts


def test_components_that_stand_apart_are_read() -> None:
    made = run(related=0.6, seed=1)
    found = made.components
    assert found.mixed[0] == ()
    kept = kept_components(found.released.result, made.study)
    assert kept[0].meaning == "sex=m and smokes=yes rise together."
    assert "sex=m" in made.plot_loadings().svg
