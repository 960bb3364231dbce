"""The published experiments by name."""

from __future__ import annotations

from benchmarks.papers import gu, huang, sun, zhang
from benchmarks.papers.cells import Experiment
from common.errors import SettingError

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for paper in (gu, huang, sun, zhang)
    for experiment in paper.EXPERIMENTS
}


def experiment_of(name: str) -> Experiment:
    """The experiment called so; `SettingError` lists the names where there is none."""
    if name not in EXPERIMENTS:
        message = f"no experiment is called {name}: {', '.join(EXPERIMENTS)}"
        raise SettingError(message)
    return EXPERIMENTS[name]
