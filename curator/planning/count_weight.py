"""Weight of a noised number of rows, by a forecast from public numbers.

The number n^ divides everything. With more weight it has less noise, and every other entry more, by
the sensitivity. Its relative noise t moves the covariance by ``t (mu mu' - B)``: in one direction
for all columns, where the noise of products has none. So the forecast is of the noise edge
(`dppca.common.analysis.forecast`), and the weight is the largest of `WEIGHTS` whose edge is within
`NEARLY` of the least: less noise of n^ is worth having where it is free. Weights with which the
release would be refused for a small n^ more often than `RARE` are left out while others are left.

The edge's order is that of any number of rows and any epsilon: both only scale it. Its means are
assumed: half of the largest total variance is variance, the rest is the means' squares, as in a
table of labels of which the rarer has 15 % of the rows. A joint law has no such weight: there the
weight of sums is also the number's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final

import numpy as np

from dppca.common.analysis.forecast import ForecastSimulation
from dppca.common.kernel.privacy.counted_rows import chance_of_refusal
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise_law import IndependentLaw, NoiseLaw
from dppca.common.kernel.privacy.release import schema_sensitivity
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Covariance
from dppca.curator.planning.assumptions import power_law
from dppca.curator.planning.choices import calibrate_alike

WEIGHTS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Weights that are compared; from 16 on the number costs numbers of 60 columns a twentieth."""
NEARLY: Final = 1.02
"""Part of the least noise edge that counts as good: draws are off by as much."""
RARE: Final = 0.001
"""Chance of a refusal that decides nothing: other things end more studies."""


@dataclass(frozen=True, slots=True)
class ProposedCountWeight:
    """The weight of the noised number that a forecast finds, beside the study's."""

    weight: Annotated[float, "proposed weight"]
    written: Annotated[float, "the study's own"]
    edge: Annotated[float, "noise edge with the proposed weight over that with the study's"]
    refusal: Annotated[float, "chance that the noised number ends the study, with the proposed one"]


class CountWeights:
    """Noise edges of a schema with a noised number of rows, by its weight."""

    def __init__(self, table: Schema, law: type[IndependentLaw]) -> None:
        self._table, self._law = with_count_weight(table, 1), law

    @cached_property
    def _edges(self) -> Mapping[float, float]:
        """Noise edge of each weight, at noise of width 1."""
        layout = self._table.layout
        simulation = ForecastSimulation(
            layout,
            np.array(power_law(layout, 1, 0.5).eigenvalues),
            law=self._law,
            owner_rows=[1],
            covariance=Covariance.POOLED,
            seed=0,
        )
        return {weight: simulation.unit_edge(weight) for weight in WEIGHTS}

    def edge(self, table: Schema, weight: float) -> float:
        """Return a figure in proportion to the noise edge of a schema with one of `WEIGHTS`.

        The schema differs from the first one in relation and cap at most.
        """
        sens = schema_sensitivity(with_count_weight(table, weight))
        return self._edges[weight] * self._law.change(sens)

    def choose(self, table: Schema, planned: tuple[Calibration, Sequence[int]] | None) -> float:
        """Return the proposed weight; ``planned`` has a calibration and the rows of owners."""
        chances = {weight: _chance(table, weight, planned) for weight in WEIGHTS}
        most = max(RARE, min(chances.values()))
        edges = {weight: self.edge(table, weight) for weight in WEIGHTS if chances[weight] <= most}
        return max(weight for weight, edge in edges.items() if edge <= NEARLY * min(edges.values()))


def find_count_weights(table: Schema, law: type[NoiseLaw]) -> CountWeights | None:
    """Return the edges of a schema; None where no number has a weight of its own."""
    return CountWeights(table, law.entry_law()) if table.with_count and not law.is_joint else None


def propose_count_weight(
    table: Schema, requested: Calibration, owner_rows: Sequence[int]
) -> ProposedCountWeight | None:
    """Return the weight that a study's public numbers propose; None where it has none."""
    if (found := find_count_weights(table, type(requested.law))) is None:
        return None
    weight = found.choose(table, (requested, owner_rows))
    nearest = min(WEIGHTS, key=lambda each: abs(each - table.count_weight))
    edge = found.edge(table, weight) / found.edge(table, nearest)
    refusal = _chance(table, weight, (requested, owner_rows))
    return ProposedCountWeight(weight, table.count_weight, edge, refusal)


def with_count_weight(table: Schema, weight: float) -> Schema:
    """Return the schema with a weight of its noised number."""
    return Schema.from_document(table.model_dump(mode="json") | {"count_weight": weight})


def _chance(
    table: Schema, weight: float, planned: tuple[Calibration, Sequence[int]] | None
) -> float:
    if planned is None:
        return 0.0
    (requested, owner_rows), weighed = planned, with_count_weight(table, weight)
    return chance_of_refusal(
        weighed.layout,
        calibrate_alike(weighed, requested),
        n_rows=sum(owner_rows),
        n_owners=len(owner_rows),
    )
