"""The report of a simulation: one JSON document, the same in Markdown, and the demo's story.

Numbers are of two kinds, kept apart in all three forms. *Released*: what anyone may know after a
real study, because it follows from what the owners released. *Simulation only*: what needs real
rows of all owners, or held-out ones (`SIMULATION_ONLY`, a list in the document itself).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dppca.common.documents import CodedByRule, VisibleRelationsDocument
from dppca.common.loadings import Loading, component_figures
from dppca.common.names import one_line
from dppca.common.numerics.comparison import PAIR_CELLS, PairSummary
from dppca.common.privacy.composition import compose_guarantee
from dppca.common.privacy.release import calibrate
from dppca.common.study import Study
from dppca.deploy.simulation.documents import (
    RepeatedFigure,
    SimulatedOwner,
    SimulatedRepeats,
    SimulatedStep,
    SimulationDocument,
)
from dppca.deploy.simulation.evaluate import Utility
from dppca.deploy.simulation.runner import OwnerRun

SIMULATION_ONLY = (
    "rows",
    "alarms",
    "coded_by_rule",
    "components.captured_variance",
    "components.captured_by_chance",
    "utility",
    "owners[].dppca_svm_accuracy",
    "pairs",
    "repeats",
    "plots.marginals",
    "plots.pairs",
    "the line without noise in plots.scree",
)
_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything a report is made of.

    Attributes
    ----------
    study
        As it was run, owners renamed.
    n_held_out
        Real rows that no owner had.
    alarms
        What a steward would be told of a file as a whole.
    coded_by_rule
        What coding had to mend in the rows of all owners (`CheckReport.counts_document`).
    vectors
        Shape (count, p), rows are the kept components.
    eigenvalues
        All p of them, descending, coded units.
    captured_variance, captured_by_chance
        Shares of the best possible, the second of random directions
        (`dppca.deploy.simulation.evaluate`).
    relations
        Which relations stand above the noise: of the release alone.
    pairs
        Two-way tables of decoded synthetic rows against those of the training rows.
    files, plots
        What was written, by what it is; paths as text.
    seconds
        The whole run, evaluation and plots included.
    """

    command: str
    study: Study
    target: str | None
    seed: int
    split: str
    owners: Sequence[OwnerRun]
    n_held_out: int
    alarms: Sequence[str]
    coded_by_rule: CodedByRule
    count: int
    vectors: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    noise_edge: float
    captured_variance: float
    captured_by_chance: float
    relations: VisibleRelationsDocument | None
    utility: Utility | None
    pairs: PairSummary
    files: Mapping[str, str]
    plots: Mapping[str, str]
    seconds: float


def make_document(findings: Findings) -> SimulationDocument:
    """The report as JSON takes it."""
    f, schema, cost = findings, findings.study.table, calibrate(findings.study)
    together = compose_guarantee(f.study, cost)
    return {
        "command": f.command,
        "study": f.study.name,
        "digest": f.study.digest,
        "target": f.target,
        "seed": f.seed,
        "split": f.split,
        "rows": {
            "training": sum(owner.n_rows for owner in f.owners),
            "held_out": f.n_held_out,
        },
        "alarms": list(f.alarms),
        "coded_by_rule": f.coded_by_rule,
        "privacy": {
            "mechanism": cost.law.name,
            "relation": cost.sensitivity.relation.value,
            "max_rows_per_person": f.study.max_rows_per_person,
            "entries": schema.layout.n_entries,
            "federation": {"epsilon": together.epsilon, "delta": together.delta},
            "assumptions": list(together.assumptions),
        },
        "owners": [_owner(owner) for owner in f.owners],
        "components": {
            "count": f.count,
            "kept": component_figures(schema, f.vectors, f.eigenvalues, f.noise_edge),
            "eigenvalues": [float(value) for value in f.eigenvalues],
            "noise_edge": f.noise_edge,
            "above_noise": int((f.eigenvalues > f.noise_edge).sum()),
            "negative": int((f.eigenvalues < 0).sum()),
            "captured_variance": f.captured_variance,
            "captured_by_chance": f.captured_by_chance,
        },
        "relations": f.relations,
        "utility": None
        if f.utility is None
        else {
            "trtr_accuracy": f.utility.trtr_accuracy,
            "tstr_accuracy": f.utility.tstr_accuracy,
            "tstr_accuracy_decoded": f.utility.tstr_accuracy_decoded,
            "majority": f.utility.majority,
        },
        "pairs": {
            "mean": f.pairs.mean,
            "by_chance": f.pairs.by_chance,
            "worst": [
                {
                    "attributes": list(each.attributes),
                    "found": each.found,
                    "by_chance": each.by_chance,
                }
                for each in f.pairs.worst
            ],
        },
        "repeats": None,
        "steps": _steps(f.owners),
        "seconds": round(f.seconds, 3),
        "simulation_only": list(SIMULATION_ONLY),
        "files": dict(f.files),
        "plots": dict(f.plots),
    }


def make_markdown(document: SimulationDocument) -> str:
    """The report as Markdown, from its own JSON document."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown; filters keep names from being more than text
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "code": _code,
        "loading_name": lambda each: Loading(each["attribute"], each["label"], 0.0).name,
        "prose": lambda text: one_line(text).replace("<", "&lt;"),
    }
    return environment.get_template("simulation.md").render(report=document, pair_cells=PAIR_CELLS)


def _code(name: str) -> str:
    """A name as code, in a cell of a table."""
    return f"`{one_line(name).replace('|', chr(92) + '|')}`"


def _owner(owner: OwnerRun) -> SimulatedOwner:
    return {
        "name": owner.name,
        "rows": owner.n_rows,
        "epsilon": float(owner.epsilon),
        "delta": float(owner.delta),
        "charged": {"epsilon": owner.charged_epsilon, "rho": owner.charged_rho},
        "dppca_svm_accuracy": owner.dppca_svm_accuracy,
        "seconds": {step.name: round(step.seconds, 3) for step in owner.steps},
        "bytes": {step.name: step.n_bytes for step in owner.steps},
    }


def _steps(owners: Sequence[OwnerRun]) -> list[SimulatedStep]:
    """Each step once, in the order of the owner with the most steps: only openers open."""
    longest = max(owners, key=lambda owner: len(owner.steps))
    named = [(step, step.name) for owner in owners for step in owner.steps]
    return [
        {
            "name": each.name,
            "seconds": round(max(step.seconds for step, name in named if name == each.name), 3),
            "bytes": sum(step.n_bytes for step, name in named if name == each.name),
        }
        for each in longest.steps
    ]


def summarise_repeats(documents: Sequence[SimulationDocument]) -> SimulatedRepeats:
    """Means and standard errors over reports, two at least, of one request."""
    figures = [_repeated_figures(document) for document in documents]
    return {
        "count": len(documents),
        "seeds": [document["seed"] for document in documents],
        "figures": {name: _mean_and_error([each[name] for each in figures]) for name in figures[0]},
    }


def _mean_and_error(values: Sequence[float]) -> RepeatedFigure:
    error = statistics.stdev(values) / len(values) ** 0.5
    return {"mean": statistics.fmean(values), "standard_error": error}


def _repeated_figures(document: SimulationDocument) -> dict[str, float]:
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
