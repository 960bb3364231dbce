"""Commands that die between any two steps of a release that is a file: a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sites import make_trained_site

TRAIN = ("train", "site-test", "--target", "ill", "--yes", "--method")
ASK = (*TRAIN, "dp-svm", "--epsilon", "1")
KILLED = -9


@pytest.mark.parametrize("step", ["reserve", "draw", "store", "commit"])
def test_a_file_is_charged_once_and_never_drawn_again_once_it_is_stored(
    tmp_path: Path, step: str
) -> None:
    site, _ = make_trained_site(tmp_path / "site", budget='epsilon: "10", delta: "0"')
    before = set(site.folder.rglob("*"))
    assert site.run(*ASK, die_at=step)[0] == KILLED
    died = site.history
    charged = died.total("survey")
    assert charged.epsilon + charged.rho > 0
    assert bool(died.commitments) == (step == "commit")
    made_by_now = {path.name.partition(".")[0] for path in {*site.folder.rglob("*")} - before}
    assert made_by_now == {"ledger"}

    code, made = site.run(*ASK)
    assert (code, made["already_stored"]) == (0, step == "commit")
    after = site.history
    assert after.total("survey") == charged
    assert len(after.reservations) == len(after.commitments) == 1
    if died.commitments:
        assert after.commitments == died.commitments
    content = Path(made["model"]).read_bytes()

    code, again = site.run(*ASK)
    assert (code, again["already_stored"]) == (0, True)
    assert Path(again["model"]).read_bytes() == content
    assert site.history == after
