"""What ``dppca-simulate`` prints and writes as JSON."""

from __future__ import annotations

from typing import Annotated, TypedDict

from dppca.common.documents import (
    CodedByRule,
    ComponentFigures,
    DecimalText,
    DigestText,
    Document,
    PairFigures,
    PathText,
    VisibleRelationsDocument,
)


class SimulatedRows(TypedDict):
    """Rows of a simulation."""

    training: Annotated[int, "rows that the owners hold together"]
    held_out: Annotated[int, "rows that no owner has"]


class SimulatedGuarantee(TypedDict):
    """The guarantee to one person, over the releases of all owners."""

    epsilon: Annotated[DecimalText, "epsilon of all releases together"]
    delta: Annotated[DecimalText, "delta of all releases together"]


class SimulatedPrivacy(TypedDict):
    """What the owners' releases promise."""

    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    relation: Annotated[str, "which tables are neighbours"]
    max_rows_per_person: Annotated[int, "most rows of one person that are protected"]
    entries: Annotated[int, "noised sums that each owner released"]
    federation: Annotated[SimulatedGuarantee, "the guarantee over all owners"]
    assumptions: Annotated[list[str], "what has to hold for it"]


class SimulatedCharge(TypedDict):
    """What an owner's ledger was charged."""

    epsilon: Annotated[DecimalText, "charge in pure epsilon"]
    rho: Annotated[DecimalText, "charge in rho (zCDP)"]


class SimulatedOwner(TypedDict):
    """One owner of a simulation."""

    name: Annotated[str, "name of the owner"]
    rows: Annotated[int, "rows that it holds"]
    epsilon: Annotated[float, "epsilon of its release"]
    delta: Annotated[float, "delta of its release"]
    charged: Annotated[SimulatedCharge, "what its ledger was charged"]
    dppca_svm_accuracy: Annotated[
        float | None, "accuracy of its own classifier on held-out rows; null without a target"
    ]
    seconds: Annotated[dict[str, float], "seconds of each step"]
    bytes: Annotated[dict[str, int], "bytes of each step"]


class SimulatedComponents(TypedDict):
    """The joint components."""

    count: Annotated[int, "components that were kept"]
    kept: Annotated[list[ComponentFigures], "each that was kept, by attribute and label"]
    eigenvalues: Annotated[list[float], "all of them, descending, squared coded units"]
    noise_edge: Annotated[float, "largest eigenvalue that noise alone reaches"]
    above_noise: Annotated[int, "eigenvalues above it"]
    negative: Annotated[int, "negative eigenvalues, which only noise can be"]
    captured_variance: Annotated[float, "share of the best possible variance, in [0, 1]"]
    captured_by_chance: Annotated[float, "what random directions would be expected to capture"]


class SimulatedUtility(TypedDict):
    """Accuracy of a classifier on held-out real rows, in [0, 1]."""

    trtr_accuracy: Annotated[float, "trained on real rows of all owners"]
    tstr_accuracy: Annotated[float, "trained on coded synthetic rows"]
    tstr_accuracy_decoded: Annotated[float, "trained on decoded synthetic rows"]
    majority: Annotated[float, "always the commonest class"]


class SimulatedStep(TypedDict):
    """A step that every owner takes."""

    name: Annotated[str, "the owner's command"]
    seconds: Annotated[float, "seconds of the slowest owner"]
    bytes: Annotated[int, "bytes of all owners together"]


class RepeatedFigure(TypedDict):
    """One figure over all repeats."""

    mean: Annotated[float, "mean over the repeats"]
    standard_error: Annotated[float, "standard error of that mean"]


class SimulatedRepeats(TypedDict):
    """A study that was run several times; all else in the report is of the first time."""

    count: Annotated[int, "how often the study was run"]
    seeds: Annotated[list[int], "seed of each run"]
    figures: Annotated[dict[str, RepeatedFigure], "figures by their name in the report"]


class SimulationDocument(Document):
    """The report of a simulation, which is also the file ``report.json``."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    target: Annotated[str | None, "attribute that classifiers predict"]
    seed: Annotated[int, "what decides who holds which rows"]
    split: Annotated[str, "how rows were divided"]
    rows: Annotated[SimulatedRows, "number of rows"]
    alarms: Annotated[list[str], "what each owner would be told of its file as a whole"]
    coded_by_rule: Annotated[CodedByRule, "values of all owners that coding replaced"]
    privacy: Annotated[SimulatedPrivacy, "what the releases promise"]
    owners: Annotated[list[SimulatedOwner], "one entry for each owner"]
    components: Annotated[SimulatedComponents, "the joint components"]
    relations: Annotated[
        VisibleRelationsDocument | None,
        "what the release shows of relations; null where no field can be fitted",
    ]
    utility: Annotated[
        SimulatedUtility | None, "what the synthetic rows are good for; null without a target"
    ]
    pairs: Annotated[PairFigures, "decoded synthetic rows against the training rows"]
    repeats: Annotated[SimulatedRepeats | None, "figures over all repeats; null where there is one"]
    steps: Annotated[list[SimulatedStep], "steps in their order"]
    seconds: Annotated[float, "time of the whole run"]
    simulation_only: Annotated[list[str], "keys that only a simulation can know"]
    files: Annotated[dict[str, str], "paths of the files that were written"]
    plots: Annotated[
        dict[str, str], "paths of the plots (PNG); an SVG of the same name stands beside each"
    ]


class ComposedOwner(TypedDict):
    """One owner of a folder with a compose file."""

    name: Annotated[str, "name of the owner"]
    rows: Annotated[int, "rows that it holds"]


class ComposeDocument(Document):
    """A folder in which ``docker compose up`` runs a study."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[
        DigestText | None, "digest of the study; null where its owners have no keys yet"
    ]
    folder: Annotated[PathText, "the folder"]
    owners: Annotated[list[ComposedOwner], "one entry for each owner"]
    alarms: Annotated[list[str], "what each owner would be told of its file as a whole"]
