"""Promises side by side: both relations, and caps on the rows of a person: noise, and numbers.

With ``neighbours: added`` the number of rows is secret and costs a part of each entry's noise, but
a person who is added moves the sums by less than one who is replaced. Which of them has less noise
depends on the schema and the law: for numbers alone under Laplace noise, *added* has more. The same
epsilon promises different things under the two, so the noise is no reason to choose.

A noised number has the weight that `dppca.curator.planning.count_weight` proposes, but in the study
as it stands. Where a person may have several rows, both are shown for people who weigh as up to c
rows, c in `CAPS`: how much of all rows then counts is known where people are, and not here.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Final

from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.privacy.counted_rows import chance_of_refusal, count_deviation
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.units import NeighbourRelation, Unit
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.curator.planning.choices import PooledNoise, PooledNoises
from dppca.curator.planning.count_weight import CountWeights, find_count_weights, with_count_weight

CAPS: Final = (1, 3, 8)
"""Rows that people may weigh as, of which a plan shows the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPromise:
    """A study's noise under one relation, at the same epsilon."""

    neighbours: Annotated[NeighbourRelation, "how neighbouring tables differ"]
    rows_counted: Annotated[
        int | None, "most rows that a person weighs as; null where each row of a person counts"
    ]
    asked: Annotated[bool, "whether the study has it"]
    product: Annotated[PooledNoise, "noise of a product of two attributes, neither a target"]
    count: Annotated[PooledNoise | None, "noise of the number of rows; null where it is public"] = (
        None
    )
    count_weight: Annotated[float | None, "weight of that number; null where it is public"] = None
    refusal: Annotated[
        float | None,
        "chance that the noised number is below five of its deviations, and the study ends "
        "without a result; null where the number is public",
    ] = None


def compare_promises(
    study: Study, requested: Calibration, owner_rows: Sequence[int]
) -> tuple[PlannedPromise, ...]:
    """Return the study as it stands first, and others that it may be.

    These have the other relation and, where a person may have several rows, people who weigh as up
    to c rows under both. ``requested`` is the study's calibration; ``owner_rows`` are the rows
    expected of each owner.
    """
    written = study.table
    own = (None if written.unit is Unit.ROW else written.rows_counted, written.neighbours)
    several = written.unit is Unit.PERSON or study.max_rows_per_person > 1
    caps = [own[0], *(CAPS if several else ())]
    others = [each for each in product(dict.fromkeys(caps), NeighbourRelation) if each != own]
    tables, weights = [written], None
    for cap, relation in others:
        for table in _possible(study, relation, cap):
            weights = weights or find_count_weights(table, type(requested.law))
            tables.append(_weighed(table, weights, requested, owner_rows))
    return tuple(_plan(each, written, requested, owner_rows) for each in tables)


def _weighed(
    table: Schema, weights: CountWeights | None, requested: Calibration, owner_rows: Sequence[int]
) -> Schema:
    """Return the schema with the proposed weight of its noised number, if it has one."""
    if weights is None or not table.with_count:
        return table
    return with_count_weight(table, weights.choose(table, (requested, owner_rows)))


def _possible(study: Study, relation: NeighbourRelation, cap: int | None) -> Iterator[Schema]:
    """Yield the schema with another relation and cap, unless the study would be refused so."""
    document = study.table.model_dump(mode="json") | {"neighbours": relation.value}
    if cap is not None:
        document |= {"unit": Unit.PERSON.value, "rows_counted": cap}
        document.pop("max_rows_per_person", None)
    if relation is NeighbourRelation.REPLACED and cap in (None, 1):
        document.pop("count_weight", None)
    written = study.model_dump(mode="json", by_alias=True, exclude={"max_rows"})  # changes no noise
    with suppress(StudyError):
        yield study_from_mapping(written | {"schema": document}).table


def _plan(
    table: Schema, written: Schema, requested: Calibration, owner_rows: Sequence[int]
) -> PlannedPromise:
    n_rows, n_owners = sum(owner_rows), len(owner_rows)
    noises = PooledNoises.of(table, requested, owner_rows)
    noise_of_product = noises.rows(Noised.PRODUCT)
    shown = PlannedPromise(
        neighbours=table.neighbours,
        rows_counted=None if table.unit is Unit.ROW else table.rows_counted,
        asked=table is written,
        product=PooledNoise(noise_of_product, noise_of_product / n_rows),
    )
    if not table.with_count:
        return shown
    noise = noises.calibration
    deviation = count_deviation(table.layout, noise, n_owners=n_owners)
    chance = chance_of_refusal(table.layout, noise, n_rows=n_rows, n_owners=n_owners)
    return replace(
        shown,
        count=PooledNoise(deviation, deviation / n_rows),
        count_weight=table.count_weight,
        refusal=chance,
    )
