"""The report of a simulation: one JSON document, the same in Markdown, and the demo's story.

Numbers are of two kinds, kept apart in all three forms. *Released*: what anyone may know after a
real study, because it follows from what the owners released. *Simulation only*: what needs real
rows of all owners, or held-out ones (`SIMULATION_ONLY`, a list in the document itself).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.privacy.federation import guarantee_of
from common.privacy.release import calibrate
from common.study import Study
from deploy.simulation.evaluate import Utility
from deploy.simulation.runner import OwnerRun

SIMULATION_ONLY = (
    "rows",
    "components.captured_variance",
    "utility",
    "owners[].dppca_svm_accuracy",
    "plots.marginals",
    "the line without noise in plots.scree",
)
_MOST_EIGENVALUES = 20


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything a report is made of.

    Attributes
    ----------
    study
        As it was run, owners renamed.
    n_held_out
        Real rows that no owner had.
    eigenvalues
        All p of them, descending, coded units.
    captured_variance
        Of the best possible (`deploy.simulation.evaluate`).
    files, plots
        What was written, by what it is; paths as text.
    seconds
        The whole run, evaluation and plots included.
    """

    command: str
    study: Study
    target: str
    seed: int
    split: str
    owners: Sequence[OwnerRun]
    n_held_out: int
    count: int
    eigenvalues: NDArray[np.float64]
    noise_edge: float
    captured_variance: float
    utility: Utility
    files: Mapping[str, str]
    plots: Mapping[str, str]
    seconds: float


def document_of(findings: Findings) -> dict[str, Any]:
    """The report as JSON takes it."""
    f, schema, cost = findings, findings.study.table, calibrate(findings.study)
    claim = (cost.epsilon, cost.delta)
    together = guarantee_of(f.study, {owner.name: claim for owner in f.owners})
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
        "privacy": {
            "mechanism": cost.mechanism.value,
            "relation": cost.sensitivity.relation.value,
            "max_rows_per_person": schema.max_rows_per_person,
            "entries": schema.layout.n_entries,
            "federation": {"epsilon": together.epsilon, "delta": together.delta},
            "assumptions": list(together.assumptions),
        },
        "owners": [_owner(owner) for owner in f.owners],
        "components": {
            "count": f.count,
            "eigenvalues": [float(value) for value in f.eigenvalues],
            "noise_edge": f.noise_edge,
            "above_noise": int((f.eigenvalues > f.noise_edge).sum()),
            "negative": int((f.eigenvalues < 0).sum()),
            "captured_variance": f.captured_variance,
        },
        "utility": {
            "trtr_accuracy": f.utility.trtr_accuracy,
            "tstr_accuracy": f.utility.tstr_accuracy,
            "tstr_accuracy_decoded": f.utility.tstr_accuracy_decoded,
            "majority": f.utility.majority,
        },
        "steps": _steps(f.owners),
        "seconds": round(f.seconds, 3),
        "simulation_only": list(SIMULATION_ONLY),
        "files": dict(f.files),
        "plots": dict(f.plots),
    }


def markdown_of(document: Mapping[str, Any]) -> str:
    """The report as Markdown, from its own JSON document."""
    privacy, components, utility = (document[k] for k in ("privacy", "components", "utility"))
    eigenvalues = components["eigenvalues"]
    shown = eigenvalues[:_MOST_EIGENVALUES]
    parts = [
        f"# Simulation of {document['study']}",
        f"Study `{document['digest']}`. Seed {document['seed']}, split `{document['split']}`, "
        f"target `{document['target']}`: {document['rows']['training']:,} rows at "
        f"{len(document['owners'])} owners, {document['rows']['held_out']:,} held out. "
        f"{document['seconds']:.1f} s.",
        "Lines marked † need real rows of all owners, or held-out ones: only a simulation knows "
        "them.",
        "## What each owner gave",
        f"{privacy['mechanism'].capitalize()} noise, {privacy['entries']:,} numbers per owner. "
        f"Neighbours: {privacy['relation']}, max_rows_per_person "
        f"{privacy['max_rows_per_person']}. To one person, all owners together: ε "
        f"{privacy['federation']['epsilon']}, δ {privacy['federation']['delta']}, provided that:",
        "\n".join(f"- {assumption}" for assumption in privacy["assumptions"]),
        _table(
            ["owner", "rows", "ε", "δ", "accuracy of its own DPPCA-SVM †"],
            [
                [
                    owner["name"],
                    f"{owner['rows']:,}",
                    f"{owner['epsilon']:g}",
                    f"{owner['delta']:g}",
                    f"{owner['dppca_svm_accuracy']:.3f}",
                ]
                for owner in document["owners"]
            ],
        ),
        "## Components",
        _table(
            ["", ""],
            [
                ["kept", f"{components['count']} of {len(eigenvalues)}"],
                ["noise edge", f"{components['noise_edge']:.4g}"],
                ["eigenvalues above the noise edge", str(components["above_noise"])],
                ["negative eigenvalues, which are noise", str(components["negative"])],
                ["variance captured, of the best possible †", _percent(components)],
            ],
        ),
        f"Largest eigenvalues: {', '.join(f'{value:.4g}' for value in shown)}"
        + (" …" if len(shown) < len(eigenvalues) else "")
        + ".",
        "## Utility †",
        "Accuracy on held-out real rows of a linear SVM trained on",
        _table(
            ["rows", "accuracy"],
            [
                ["real rows of all owners (no privacy)", f"{utility['trtr_accuracy']:.4f}"],
                ["synthetic rows, coded", f"{utility['tstr_accuracy']:.4f}"],
                ["synthetic rows, decoded", f"{utility['tstr_accuracy_decoded']:.4f}"],
                ["nothing: the commonest class", f"{utility['majority']:.4f}"],
            ],
        ),
        "## Seconds and bytes",
        _table(
            ["step", "seconds, slowest owner", "bytes, all owners"],
            [
                [step["name"], f"{step['seconds']:.2f}", f"{step['bytes']:,}"]
                for step in document["steps"]
            ],
        ),
        "## Plots",
        *(f"![{name}]({_last(path)})" for name, path in document["plots"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def _owner(owner: OwnerRun) -> dict[str, Any]:
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


def _steps(owners: Sequence[OwnerRun]) -> list[dict[str, Any]]:
    return [
        {
            "name": same[0].name,
            "seconds": round(max(step.seconds for step in same), 3),
            "bytes": sum(step.n_bytes for step in same),
        }
        for same in zip(*(owner.steps for owner in owners), strict=True)
    ]


def _percent(components: Mapping[str, Any]) -> str:
    return f"{100 * components['captured_variance']:.1f} %"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _last(path: str) -> str:
    return path.rpartition("/")[2]
