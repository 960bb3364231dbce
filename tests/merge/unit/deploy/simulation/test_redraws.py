"""A study that is repeated on the same rows: noise, and nothing else, makes its figures differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from dppca.deploy.simulation.experiment import ExperimentRequest
from dppca.deploy.simulation.redraws import Draw, draw_again
from tests.support.latent_rows import make_rows, save_rows
from tests.support.noise import seed_noise
from tests.support.studies import make_study

FALSE_ALARMS = 0.0  # all noise has a seed


def test_draws_differ_by_noise_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    request = ExperimentRequest(
        command="demo",
        study=make_study("latent", owners=["alpha", "beta"]),
        data=save_rows(make_rows(900), tmp_path / "rows.parquet"),
        target="ill",
        seed=3,
        split="iid",
        output=tmp_path / "unused",
    )

    def draw(seed: int) -> list[Draw]:
        seed_noise(monkeypatch, seed=seed)
        return draw_again(request, count=3, on_draw=lambda: told.append(seed))

    told: list[int] = []
    draws = draw(1)
    assert told == [1, 1, 1]
    assert draw(1) == draws
    assert draw(2) != draws
    assert len({each.utility.tstr_accuracy for each in draws}) > 1
    assert len({(each.utility.trtr_accuracy, each.utility.majority) for each in draws}) == 1
    for each in draws:
        assert list(each.at_home) == ["alpha", "beta"]
        assert all(0.5 < accuracy <= 1 for accuracy in each.at_home.values())
    assert not request.output.exists()
