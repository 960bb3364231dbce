"""JSON document of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from dppca.common.documents.values import DigestText, PathText
from dppca.common.estimators.relations import Relations
from dppca.common.synthesis.refinement import PlannedRounds
from dppca.curator.planning.choices import Choice
from dppca.curator.planning.forecaster import Feasibility, PlanForecast, PlanNeed
from dppca.curator.planning.trusts import PlanTrust


@dataclass(frozen=True, slots=True)
class PlanAssumption:
    """The eigenvalues that a plan assumes."""

    source: Annotated[str, "where they are from, in words"]
    eigenvalues: Annotated[list[float], "descending, squared coded units"]


@dataclass(frozen=True, slots=True)
class PlanAdvice:
    """Recommendation of the plan."""

    mechanism: Annotated[str, "noise"]
    reason: Annotated[str, "why this noise, in words"]
    resolution_bits: Annotated[int, "binary digits of a coded value"]


@dataclass(frozen=True, slots=True)
class PlanBytes:
    """Bytes of one owner."""

    up: Annotated[int, "bytes that it sends"]
    down: Annotated[int, "bytes that it receives, about"]


@dataclass(frozen=True, slots=True)
class PlanSeconds:
    """Times on one core of this machine; the transfer is at ``megabits`` a second."""

    draw: Annotated[float, "seconds for an owner's noise"]
    decompose: Annotated[float, "seconds for the curator's decomposition"]
    transfer: Annotated[float, "seconds for an owner's bytes, up and down"]
    megabits: Annotated[float, "megabits a second that the transfer assumes"]


@dataclass(frozen=True, slots=True)
class StudyPlanDocument:
    """Costs of a study and its forecast, from public numbers."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    verdict: Annotated[Feasibility, "whether the study as it stands can work"]
    asked: Annotated[PlanForecast, "the study as it stands"]
    rows: Annotated[Mapping[str, int], "expected rows of each owner"]
    assumption: Annotated[PlanAssumption, "the assumed eigenvalues"]
    components: Annotated[int, "components that the needs are about"]
    draws: Annotated[int, "simulated draws of noise"]
    forecasts: Annotated[tuple[PlanForecast, ...], "every mechanism over a grid of epsilons"]
    needs: Annotated[
        tuple[PlanNeed, ...], "what each mechanism needs to capture 0.9 of the best variance"
    ]
    choices: Annotated[tuple[Choice, ...], "what choices of the schema cost and gain"]
    trusts: Annotated[
        tuple[PlanTrust, ...],
        "as the study stands, and under the other trust, if asked",
    ]
    relations: Annotated[
        Relations | None,
        "whether synthetic rows will show relations; null for unit-ball rows or one attribute",
    ]
    rounds: Annotated[
        PlannedRounds | None,
        "the same budget in two studies, the second of which continues the first; null for unit-"
        "ball rows",
    ]
    wide_bins: Annotated[
        tuple[str, ...],
        "numerics without spikes whose bins hold several whole numbers: a number that many "
        "rows have is spread over its bin",
    ]
    recommended: Annotated[PlanAdvice, "what the plan recommends"]
    bytes: Annotated[PlanBytes, "bytes of one owner"]
    seconds: Annotated[PlanSeconds, "times"]
    plot: Annotated[PathText | None, "the plot; with `--plot`"] = None
