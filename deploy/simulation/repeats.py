"""Figures of a study that was simulated several times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from dppca.deploy.simulation.documents import (
    RepeatedFigure,
    SimulatedRepeats,
    SimulationDocument,
)


def summarise_repeats(documents: Sequence[SimulationDocument]) -> SimulatedRepeats:
    """Means and standard errors over reports, two at least, of one request."""
    figures = [_figures(document) for document in documents]
    return {
        "count": len(documents),
        "seeds": [document["seed"] for document in documents],
        "figures": {name: _figure([each[name] for each in figures]) for name in figures[0]},
    }


def _figure(values: Sequence[float]) -> RepeatedFigure:
    error = statistics.stdev(values) / len(values) ** 0.5
    return {"mean": statistics.fmean(values), "standard_error": error}


def _figures(document: SimulationDocument) -> dict[str, float]:
    components, utility = document["components"], document["utility"]
    figures: dict[str, float] = {
        "components.count": components["count"],
        "components.above_noise": components["above_noise"],
        "components.captured_variance": components["captured_variance"],
    }
    pairs = document["pairs"]["mean"]
    if pairs is not None:
        figures["pairs.mean"] = pairs
    if utility is not None:
        accuracies: dict[str, float] = {
            "trtr_accuracy": utility["trtr_accuracy"],
            "tstr_accuracy": utility["tstr_accuracy"],
            "tstr_accuracy_decoded": utility["tstr_accuracy_decoded"],
            "majority": utility["majority"],
        }
        figures |= {f"utility.{name}": value for name, value in accuracies.items()}
    for owner in document["owners"]:
        accuracy = owner["dppca_svm_accuracy"]
        if accuracy is not None:
            figures[f"{owner['name']}.dppca_svm_accuracy"] = accuracy
    return figures
