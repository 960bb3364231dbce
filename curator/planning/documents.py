"""What a plan says as JSON."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from dppca.common.attestation.documents import ProvedCollusion
from dppca.common.documents import (
    DecimalText,
    DigestText,
    Document,
    PathText,
    RelationsDocument,
)


class PlanForecast(TypedDict):
    """One mechanism at one epsilon; figures of what is found are absent where it is refused."""

    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    epsilon: Annotated[DecimalText, "epsilon of each owner's release"]
    delta: Annotated[DecimalText, "delta of each owner's release"]
    noise: Annotated[float | None, "standard deviation of a pooled product, coded units"]
    verdict: Annotated[str, "`works`, `works in part`, `cannot work` or `refused`"]
    captured: NotRequired[Annotated[float, "share of the best possible variance, in [0, 1]"]]
    captured_low: NotRequired[Annotated[float, "nine of ten studies capture at least this"]]
    captured_high: NotRequired[Annotated[float, "nine of ten studies capture at most this"]]
    chance: NotRequired[Annotated[float, "share that random directions would capture"]]
    angle: NotRequired[Annotated[float, "mean angle to the assumed components, degrees"]]
    largest_angle: NotRequired[Annotated[float, "largest of these angles, degrees"]]
    count: NotRequired[Annotated[int, "components that are kept"]]
    above: NotRequired[Annotated[int, "eigenvalues above the noise edge"]]
    noise_edge: NotRequired[Annotated[float, "largest eigenvalue that noise alone reaches"]]


class PlanAssumption(TypedDict):
    """The eigenvalues that a plan assumes."""

    source: Annotated[str, "where they are from, in words"]
    eigenvalues: Annotated[list[float], "descending, squared coded units"]


class NeedDocument(TypedDict):
    """What a mechanism needs to capture enough; null where nothing within reach is enough."""

    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    captured: Annotated[float, "share of the best possible variance that is enough"]
    epsilon: Annotated[DecimalText | None, "smallest epsilon that is enough"]
    rows_per_owner: Annotated[int | None, "rows of each owner that are enough, on average"]
    owners: Annotated[int | None, "owners that are enough, with as many rows each as planned"]


class PlanNoise(TypedDict):
    """The noise of one kind of pooled sums: its standard deviation."""

    rows: Annotated[float, "in rows"]
    share: Annotated[float, "as a share of the rows of all owners"]


class PlanChoice(TypedDict):
    """The study as written, or what it could choose otherwise, at the same epsilon."""

    choice: Annotated[str, "what is chosen; `as written` is the study as it stands"]
    sum_weight: Annotated[float, "weight of column sums"]
    histograms: Annotated[list[str], "numerics whose histogram is released"]
    products_of_bins: Annotated[list[str], "numerics whose bins enter products"]
    targets: Annotated[list[str], "attributes whose products weigh more"]
    product: Annotated[PlanNoise, "noise of a product of two attributes, neither a target"]
    target_product: Annotated[PlanNoise | None, "noise of a product with a target"]
    column_sum: Annotated[PlanNoise | None, "noise of a column's sum"]
    cell: Annotated[PlanNoise | None, "noise of the number of rows in a cell of a histogram"]
    factor: Annotated[float, "the product's noise over that of the study as written"]
    gains: Annotated[list[str], "what is gained beside the study as written"]
    costs: Annotated[list[str], "what is lost beside it"]


class PlanTrusts(TypedDict):
    """What the study asks for, by whom its owners trust; null where each adds all of the noise."""

    trust: Annotated[str, "`owner` or `aggregate`"]
    colluders: Annotated[int | None, "owners that may work with the curator"]
    honest: Annotated[int | None, "owners whose shares of the noise make all of it"]
    factor: Annotated[float, "noise of the sum beside that of one mechanism"]
    if_more_collude: Annotated[
        ProvedCollusion | None, "what is left; null where it does not depend on that"
    ]
    forecast: Annotated[PlanForecast, "what is forecast"]


class PlanAdvice(TypedDict):
    """What the plan recommends."""

    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    reason: Annotated[str, "why this noise, in words"]
    resolution_bits: Annotated[int, "binary digits of a coded value"]


class PlanBytes(TypedDict):
    """Bytes of one owner."""

    up: Annotated[int, "bytes that it sends"]
    down: Annotated[int, "bytes that it receives, about"]


class PlanSeconds(TypedDict):
    """Times on this machine, one core."""

    draw: Annotated[float, "seconds for an owner's noise"]
    decompose: Annotated[float, "seconds for the curator's decomposition"]
    transfer: Annotated[float, "seconds for an owner's bytes"]
    megabits: Annotated[float, "megabits a second that the transfer assumes"]


class StudyPlanDocument(Document):
    """What a study will cost and whether it can work, from public numbers."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    verdict: Annotated[str, "`works`, `works in part` or `cannot work`"]
    asked: Annotated[PlanForecast, "the study as it stands"]
    rows: Annotated[dict[str, int], "expected rows of each owner"]
    assumption: Annotated[PlanAssumption, "the assumed eigenvalues"]
    components: Annotated[int, "components that the needs are about"]
    draws: Annotated[int, "simulated draws of noise"]
    forecasts: Annotated[list[PlanForecast], "both mechanisms over a grid of epsilons"]
    needs: Annotated[list[NeedDocument], "what each mechanism needs"]
    choices: Annotated[list[PlanChoice], "what choices of the schema cost and gain"]
    trusts: Annotated[
        list[PlanTrusts], "as the study stands, and under the other trust if colluders are said"
    ]
    relations: Annotated[
        RelationsDocument | None,
        "whether synthetic rows will show relations; null for unit-ball rows or one attribute",
    ]
    recommended: Annotated[PlanAdvice, "what the plan recommends"]
    bytes: Annotated[PlanBytes, "bytes of one owner"]
    seconds: Annotated[PlanSeconds, "times"]
    plot: NotRequired[Annotated[PathText, "the plot; with `--plot`"]]
