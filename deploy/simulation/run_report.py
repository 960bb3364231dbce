"""The report of a simulation: one JSON document, the same in Markdown, and the demo's story.

Numbers are of two kinds, kept apart in all three forms. *Released*: what anyone may know after a
real study, because it follows from what the owners released. *Simulation only*: what needs real
rows of all owners, or held-out ones (`SIMULATION_ONLY`, a list in the document itself).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.documents import (
    CodedByRule,
    ComponentFigures,
    PairFigures,
    VisibleRelationsDocument,
)
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
    SimulatedUtility,
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
_MOST_EIGENVALUES = 20
_MOST_COMPONENTS = 10


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
            "mechanism": cost.mechanism.value,
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
    privacy, components = document["privacy"], document["components"]
    utility, target = document["utility"], document["target"]
    eigenvalues = components["eigenvalues"]
    shown = eigenvalues[:_MOST_EIGENVALUES]
    parts = [
        f"# Simulation of {document['study']}",
        *(f"**{line}.** †".replace("<", "&lt;") for line in document["alarms"]),
        f"Study `{document['digest']}`. Seed {document['seed']}, split `{document['split']}`, "
        f"{'no target' if target is None else f'target `{target}`'}: "
        f"{document['rows']['training']:,} rows at "
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
                    _accuracy(owner["dppca_svm_accuracy"]),
                ]
                for owner in document["owners"]
            ],
        ),
        *_commonest(utility),
        *_repeated(document["repeats"]),
        "## Values coded by rule †",
        *_coded_by_rule(document["coded_by_rule"]),
        "## Components",
        _table(
            ["", ""],
            [
                ["kept", f"{components['count']} of {len(eigenvalues)}"],
                ["noise edge", f"{components['noise_edge']:.4g}"],
                ["eigenvalues above the noise edge", str(components["above_noise"])],
                ["negative eigenvalues, which are noise", str(components["negative"])],
                [
                    "variance captured, of the best possible †",
                    _percent(components["captured_variance"]),
                ],
                [
                    "what random directions would capture †",
                    _percent(components["captured_by_chance"]),
                ],
            ],
        ),
        f"Largest eigenvalues: {', '.join(f'{value:.4g}' for value in shown)}"
        + (" …" if len(shown) < len(eigenvalues) else "")
        + ".",
        *_loadings(components["kept"]),
        *_relations(document["relations"]),
        *_utility(utility),
        "## Pairs of attributes †",
        *_pairs(document["pairs"]),
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


def _accuracy(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _commonest(utility: SimulatedUtility | None) -> list[str]:
    if utility is None:
        return []
    return [
        "Always answering the commonest class would be right on "
        f"{utility['majority']:.3f} of the held-out rows †."
    ]


def _utility(utility: SimulatedUtility | None) -> list[str]:
    if utility is None:
        return ["## Utility †", "No target was named, so nothing was predicted."]
    return [
        "## Utility †",
        "Accuracy of a linear SVM on held-out real rows whose target is known, trained on",
        _table(
            ["rows", "accuracy"],
            [
                ["real rows of all owners (no privacy)", f"{utility['trtr_accuracy']:.4f}"],
                ["synthetic rows, coded", f"{utility['tstr_accuracy']:.4f}"],
                ["synthetic rows, decoded", f"{utility['tstr_accuracy_decoded']:.4f}"],
                ["nothing: the commonest class", f"{utility['majority']:.4f}"],
            ],
        ),
    ]


def _repeated(repeats: SimulatedRepeats | None) -> list[str]:
    """What the noise, and which rows are held out, make of each figure."""
    if repeats is None:
        return []
    rows = [
        [f"`{name}`", f"{figure['mean']:.4f}", f"{figure['standard_error']:.4f}"]
        for name, figure in repeats["figures"].items()
    ]
    return [
        f"## Over {repeats['count']} repeats †",
        "Noise and held-out rows of their own each time. Everything else on this page is of the "
        "first time. A real study is run once.",
        _table(["figure", "mean", "standard error"], rows),
    ]


def _loadings(kept: Sequence[ComponentFigures]) -> list[str]:
    """The components by attribute and label."""
    return [
        "Largest loadings, by attribute and label. A numeric counts in widths of its bounds; the "
        "sign of a whole component means nothing.",
        _table(
            ["component", "eigenvalue", "above the noise edge", "largest loadings"],
            [
                [
                    str(number),
                    f"{component['eigenvalue']:.4g}",
                    "yes" if component["above_noise"] else "no",
                    ", ".join(
                        f"{each['loading']:+.2f} {_name(each['attribute'], each['label'])}"
                        for each in component["loadings"]
                    ),
                ]
                for number, component in enumerate(kept[:_MOST_COMPONENTS], start=1)
            ],
        ),
        *([f"And {len(kept) - _MOST_COMPONENTS} more."] if len(kept) > _MOST_COMPONENTS else []),
    ]


def _relations(relations: VisibleRelationsDocument | None) -> list[str]:
    """Which relations stand above the noise, in words that may hold names."""
    if relations is None:
        return []
    return ["## Relations", one_line(relations["summary"]).replace("<", "&lt;")]


def _name(attribute: str, label: str | None) -> str:
    """Name of an attribute or of a loading, in a cell of a table."""
    return f"`{one_line(Loading(attribute, label, 0.0).name).replace('|', chr(92) + '|')}`"


_OWN_VALUE = (
    "What is missing can be a value of its own, in synthetic rows too: a label by `unknown`, a "
    "number by `missing: level` with `histogram: true`."
)


def _coded_by_rule(counts: CodedByRule) -> list[str]:
    """What was coded as something else than the file holds; all accuracies are of coded rows."""
    if not counts["attributes"]:
        return ["None: every value of the training rows is coded as it is."]
    kinds = ("missing", "unknown", "text", "infinite", "out-of-bounds")
    rows = [
        [
            _name(name, None),
            *(f"{found.get(kind, 0):,}" for kind in kinds),
            f"{found['share']:.2%}",
        ]
        for name, found in counts["attributes"].items()
    ]
    said = [
        f"`{name}`: {found['coded_as']}"
        for name, found in counts["attributes"].items()
        if any(found.get(kind) for kind in kinds[:-1])
    ]
    lacking = any(each.get("missing") and each["faults"] for each in counts["attributes"].values())
    return [
        "Of the training rows. In a real study each owner sees its own counts, and nobody else's.",
        _table(["attribute", *kinds, "of the rows"], rows),
        "A number out of bounds is coded as the nearest bound"
        f"{', other values as: ' * bool(said)}{'; '.join(said)}.",
        *([_OWN_VALUE] if lacking else []),
    ]


def _pairs(pairs: PairFigures) -> list[str]:
    """Decoded rows only: coded ones have no cells."""
    return [
        f"Total variation between two-way tables of decoded synthetic rows and of the training "
        f"rows, a numeric in at most {PAIR_CELLS} cells: {pairs['mean']:.4f} on average, where "
        f"chance alone would give {pairs['by_chance']:.4f}.",
        _table(
            ["the pairs that differ most", "total variation", "by chance"],
            [
                [
                    ", ".join(_name(name, None) for name in each["attributes"]),
                    f"{each['found']:.3f}",
                    f"{each['by_chance']:.3f}",
                ]
                for each in pairs["worst"]
            ],
        ),
    ]


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


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _last(path: str) -> str:
    return path.rpartition("/")[2]


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
