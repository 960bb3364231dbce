"""Commands that die between any two steps of a model's release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.trained_site import make_trained_site

pytestmark = pytest.mark.faults

OPTIONS = {
    "dp-svm": ("--epsilon", "1"),
    "pca-dpsvm": ("--epsilon", "1"),
    "private-svm": ("--epsilon", "1", "--delta", "1e-6"),
}
# Each step for the first; for the others, which take the same path, the two sides of the storing.
CASES = [
    *[("dp-svm", step) for step in ("commit", "draw", "reserve", "store")],
    *[(name, step) for name in ("pca-dpsvm", "private-svm") for step in ("commit", "draw")],
]
KILLED = -9


@pytest.mark.parametrize(("method", "step"), CASES)
def test_a_model_is_charged_once_and_never_drawn_again_once_it_is_stored(
    tmp_path: Path, method: str, step: str
) -> None:
    ask = ("train", "site-test", "--target", "ill", "--method", method, *OPTIONS[method], "--yes")
    site, _ = make_trained_site(tmp_path / "site", budget='epsilon: "10", delta: "1e-6"')
    assert site.run(*ask, die_at=step)[0] == KILLED
    died = site.history
    charged = died.total("survey")
    assert charged.epsilon + charged.rho > 0
    assert bool(died.commitments) == (step == "commit")
    assert not list(site.folder.glob("studies/*/model-*"))

    code, made = site.run(*ask)
    assert (code, made["already_stored"]) == (0, step == "commit")
    after = site.history
    assert after.total("survey") == charged
    assert len(after.reservations) == len(after.commitments) == 1
    if died.commitments:
        assert after.commitments == died.commitments
    content = Path(made["model"]).read_bytes()

    code, again = site.run(*ask)
    assert (code, again["already_stored"]) == (0, True)
    assert Path(again["model"]).read_bytes() == content
    assert site.history == after
