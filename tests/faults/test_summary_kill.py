"""``report --release`` that dies between two steps: the same path as a model's, one charge."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.trained_site import make_trained_site

pytestmark = pytest.mark.faults

ASK = ("report", "site-test", "--release", "--epsilon", "1", "--yes")
KILLED = -9


@pytest.mark.parametrize("step", ["draw", "commit"])
def test_a_summary_is_charged_once_and_never_drawn_again_once_it_is_stored(
    tmp_path: Path, step: str
) -> None:
    site, _ = make_trained_site(tmp_path / "site")
    assert site.run("synthesize", "site-test")[0] == 0
    assert site.run(*ASK, die_at=step)[0] == KILLED
    died = site.history
    assert died.total("survey").epsilon == Decimal(1)
    assert bool(died.commitments) == (step == "commit")
    assert not list(site.folder.glob("studies/*/quality-summary.json"))
    code, made = site.run(*ASK)
    assert (code, made["already_stored"]) == (0, step == "commit")
    content = Path(made["summary"]).read_bytes()
    code, again = site.run(*ASK)
    assert (code, again["already_stored"]) == (0, True)
    assert Path(again["summary"]).read_bytes() == content
    after = site.history
    assert after.total("survey").epsilon == Decimal(1)
    assert len(after.reservations) == len(after.commitments) == 1
