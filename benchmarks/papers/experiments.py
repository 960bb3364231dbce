"""The published experiments by name."""

from __future__ import annotations

from benchmarks.papers import gu, huang, sun, zhang
from benchmarks.papers.trials import Experiment
from dppca.common.errors import SettingError

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for paper in (gu, huang, sun, zhang)
    for experiment in paper.EXPERIMENTS
}


def find_experiment(name: str) -> Experiment:
    """The experiment called so; `SettingError` lists the names where there is none."""
    if name not in EXPERIMENTS:
        raise SettingError(f"no experiment is called {name}: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
