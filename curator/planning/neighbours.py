"""Both relations of a promise side by side: noise, and what becomes of the number of rows.

With ``neighbours: added`` the number of rows is secret and costs a part of each entry's noise, but
a person who is added moves the sums by less than one who is replaced. Which of them has less noise
depends on the schema and the law: for numbers alone under Laplace noise, *added* has more. The same
epsilon promises different things under the two, so the noise is no reason to choose.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated

from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.privacy.counted_rows import chance_of_refusal, count_deviation
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.units import NeighbourRelation
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.curator.planning.choices import PooledNoise, calibrate_alike, product_noise


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPromise:
    """A study's noise under one relation, at the same epsilon."""

    neighbours: Annotated[NeighbourRelation, "how neighbouring tables differ"]
    asked: Annotated[bool, "whether the study has it"]
    product: Annotated[PooledNoise, "noise of a product of two attributes, neither a target"]
    count: Annotated[PooledNoise | None, "noise of the number of rows; null where it is public"] = (
        None
    )
    refusal: Annotated[
        float | None,
        "chance that the noised number is below five of its deviations, and the study ends "
        "without a result; null where the number is public",
    ] = None


def compare_promises(
    study: Study, requested: Calibration, owner_rows: Sequence[int]
) -> tuple[PlannedPromise, ...]:
    """Return the study's own relation first and, if it may have it, the other one.

    ``requested`` is the study's calibration; ``owner_rows`` are the rows expected of each owner.
    """
    own = study.table.neighbours
    other = next(each for each in NeighbourRelation if each is not own)
    tables = [study.table, *_possible(study, other)]
    return tuple(_plan(each, own, requested, owner_rows) for each in tables)


def _possible(study: Study, relation: NeighbourRelation) -> Iterator[Schema]:
    """Yield the schema with another relation, unless the study would be refused with it."""
    document = study.table.model_dump(mode="json") | {"neighbours": relation.value}
    if relation is NeighbourRelation.REPLACED and study.table.rows_counted == 1:
        document.pop("count_weight", None)
    written = study.model_dump(mode="json", by_alias=True, exclude={"max_rows"})  # changes no noise
    with suppress(StudyError):
        yield study_from_mapping(written | {"schema": document}).table


def _plan(
    table: Schema, own: NeighbourRelation, requested: Calibration, owner_rows: Sequence[int]
) -> PlannedPromise:
    n_rows, n_owners = sum(owner_rows), len(owner_rows)
    product = product_noise(table, requested, owner_rows)
    shown = PlannedPromise(
        neighbours=table.neighbours,
        asked=table.neighbours is own,
        product=PooledNoise(product, product / n_rows),
    )
    if not table.with_count:
        return shown
    noise = calibrate_alike(table, requested)
    deviation = count_deviation(table.layout, noise, n_owners=n_owners)
    chance = chance_of_refusal(table.layout, noise, n_rows=n_rows, n_owners=n_owners)
    return replace(shown, count=PooledNoise(deviation, deviation / n_rows), refusal=chance)
