"""Proposal of what a study releases of each number: bins or a histogram, by public numbers alone.

With K bins in products, the table of two numbers has K² cells. Each is n / K² of n rows, if values
are spread evenly, and has the noise of a product, s rows. So noise puts the table off in proportion
to ``K^2 s / n``; what a bin's width hides falls as ``1 / K``. Their sum is least where ::

    K^3 = c n / s                                                                               (1)

with a constant c that says how much relations bend. A number without bins enters products along a
line: it hides every bend, and has a tenth of the noise, so few bins are worth less than none.

`BENDS` is c, and `SIZES` are the numbers of bins that are proposed, the largest one within (1);
below the least, histograms. Both were chosen on tables made for it and are shown on others:
``benchmarks/synthesis/bins.py``. A whole number has a bin for each of its values, or a histogram:
bins of several would spread a heap, such as 40 hours, over them. Such heaps also hold most rows in
few cells, so `WHOLE` times as many of them are allowed.

Bounds are never chosen here, and edges that a study gives itself are kept.

`advise_course` says for which trees there is room: those of a second study, by the size that
`dppca.common.analysis.rows.refinement` chooses; and random ones in the first study, where a leaf
holds `CLEAR` times the noise of a count (with less they lost, with more they gained).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import ceil, floor
from typing import Annotated, Any

from dppca.common.analysis.rows.refinement import PlannedRounds
from dppca.common.analysis.study_file import schema_from_document
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.laws import choose_law
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.privacy.release import schema_sensitivity
from dppca.common.kernel.schema import MAX_COLUMNS, Date, Numeric, Ordinal, Schema
from dppca.common.kernel.schema.units import Unit
from dppca.curator.planning.choices import PooledNoises, drop_square_weight, free_square_weight
from dppca.curator.planning.count_weight import find_count_weights
from dppca.curator.planning.covariance_noise import joint_share

SIZES = (14, 20, 28, 40)  # numbers of bins; pairs of each have twice the cells of the one before
BENDS = 16  # c of (1)
WHOLE = 4  # times as many cells for whole numbers
CLEAR = 2  # times a count's noise, in a leaf
_BLANKS: Mapping[str, Mapping[str, Any]] = {
    "numeric": {"lower": 0, "upper": 1_000_000},
    "date": {"lower": "2000-01-01", "upper": "2029-12-31"},
    "ordinal": {"levels": ["a", "b", "c"]},
    "binary": {"values": ["a", "b"]},
    "categorical": {"categories": ["a", "b", "c"]},
}
"""What stands for blank places of a draft."""
_LEAVES = 128  # of a random tree that is proposed


class Course(StrEnum):
    """Studies in which there is room for what several attributes decide together."""

    ONE = "one study"
    ROUNDS = "two rounds"
    BOTH = "random trees or two rounds"


@dataclass(frozen=True, slots=True)
class NumbersProposal:
    """What the noise of a study allows for its numbers."""

    bins: Annotated[Mapping[str, int], "numbers with `products: bins`, and how many each"]
    histograms: Annotated[tuple[str, ...], "numbers, dates and ordinals with `histogram: true`"]
    noise: Annotated[float, "standard deviation of the noise of a product with them, in rows"]
    rows: Annotated[int, "rows of all owners"]
    as_written: Annotated[bool, "whether the study releases this already"]

    @property
    def words(self) -> str:
        """The proposal on one line."""
        alike: dict[int, list[str]] = {}
        for name, n in self.bins.items():
            alike.setdefault(n, []).append(name)
        parts = [f"{n} bins in products: {', '.join(each)}" for n, each in alike.items()]
        if self.histograms:
            parts.append(f"histogram: {', '.join(self.histograms)}")
        return "; ".join(parts)


def propose_numbers(
    table: Schema, requested: Calibration, *, owner_rows: Sequence[int]
) -> NumbersProposal | None:
    """Propose bins or histograms for the numbers of a schema; None for the ball or without any.

    ``requested`` is the study's calibration, or another with its law: epsilon, delta and rows of a
    person are kept. ``owner_rows`` are those expected of each owner.
    """
    numerics = [each for each in table.attributes if isinstance(each, Numeric)]
    if table.row_norm is not None or not numerics:
        return None
    n_rows = sum(owner_rows)
    for size in (*reversed(SIZES), 0):
        counts = {each.name: n for each in numerics if (n := _bins(each, size))}
        if table.layout.n_columns + sum(counts.values()) > MAX_COLUMNS:
            continue
        proposed = with_bins(table, counts)
        noise = PooledNoises.of(proposed, requested, owner_rows).rows(Noised.PRODUCT)
        if size**3 * noise <= BENDS * n_rows:
            break
    others = tuple(each.name for each in numerics if each.name not in counts)
    return NumbersProposal(counts, others, noise, n_rows, proposed.digest == table.digest)


def with_bins(table: Schema, counts: Mapping[str, int]) -> Schema:
    """Return the schema with bins of some numbers, and histograms of all others."""
    document = table.model_dump(mode="json")
    for attribute in document["attributes"]:
        if attribute["type"] in ("binary", "categorical"):
            continue
        for name in ("histogram", "products"):
            attribute.pop(name, None)
        if attribute["name"] not in counts:
            attribute["histogram"] = True
            continue
        if not isinstance(attribute.get("bins"), list):
            attribute["bins"] = counts[attribute["name"]]
        attribute["products"] = "bins"
        if "missing" in attribute:
            attribute["missing"] = "level"
    drop_square_weight(document)
    return schema_from_document(document)


def propose_for_draft(
    schema: Mapping[str, Any],
    *,
    epsilon: Decimal,
    delta: Decimal | None,
    owner_rows: Sequence[int],
    mechanism: str | None = None,
) -> NumbersProposal | None:
    """Propose for the schema of a draft, in which bounds and labels may still be blank.

    ``mechanism`` is as in `choose_law`.
    """
    table = _filled(schema)
    requested = calibrate_noise(
        choose_law(mechanism, delta),
        schema_sensitivity(table),
        epsilon=epsilon,
        delta=delta,
        max_rows_per_person=1 if table.unit is Unit.PERSON else int(schema["max_rows_per_person"]),
        layout=table.layout,
        rows_counted=table.counted_of_person,
    )
    return propose_numbers(table, requested, owner_rows=owner_rows)


def weigh_squares(
    schema: Mapping[str, Any], *, delta: Decimal | None, mechanism: str | None = None
) -> int:
    """Return the largest free weight of squares for the schema of a draft; 1 if there is none.

    Blanks and ``mechanism`` are as in `propose_for_draft`. A draft that is no schema yet, whatever
    its blanks, has the weight 1: `study check` says what is wrong with it.
    """
    table = table_of_draft(schema)
    return 1 if table is None else free_square_weight(table, choose_law(mechanism, delta))


def weigh_count(
    schema: Mapping[str, Any],
    *,
    delta: Decimal | None,
    mechanism: str | None,
    epsilon: Decimal | None,
    owner_rows: Sequence[int] | None,
) -> float:
    """Return the weight of a noised number of rows that a forecast proposes for a draft; else 1.

    Blanks and ``mechanism`` are as in `weigh_squares`. With epsilon and rows of owners, weights
    with which the number may be refused come last (`CountWeights.choose`).
    """
    law = choose_law(mechanism, delta)
    try:
        table = _filled(schema)
    except SettingError:
        return 1.0
    if (found := find_count_weights(table, law)) is None:
        return 1.0
    if epsilon is None or owner_rows is None:
        return found.choose(table, None)
    most = 1 if table.unit is Unit.PERSON else table.max_rows_per_person or 1
    requested = calibrate_noise(
        law, schema_sensitivity(table), epsilon=epsilon, delta=delta, max_rows_per_person=most
    )
    return found.choose(table, (requested, owner_rows))


def propose_joint(schema: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return a joint law with clearly less noise of the covariance than the usual one, for a draft.

    It comes with its part of that noise; see `joint_share`. None also for a draft that is no schema
    yet, whatever its blanks.
    """
    table = table_of_draft(schema)
    return None if table is None else joint_share(table.model_dump(mode="json", exclude_none=True))


def table_of_draft(schema: Mapping[str, Any]) -> Schema | None:
    """Return the schema of a draft, whose blanks are filled; None if it is none yet even so."""
    try:
        return _filled(schema)
    except SettingError:
        return None


def _filled(schema: Mapping[str, Any]) -> Schema:
    filled = [
        {**_BLANKS[each["type"]], **{key: said for key, said in each.items() if said is not None}}
        for each in schema["attributes"]
    ]
    unit = {} if schema.get("unit") == Unit.PERSON.value else {"max_rows_per_person": 1}
    said = {key: value for key, value in schema.items() if value is not None}
    return schema_from_document({**unit, **said, "attributes": filled})


def advise_course(
    table: Schema,
    requested: Calibration,
    rounds: PlannedRounds | None,
    *,
    owner_rows: Sequence[int],
) -> Course:
    """Say which trees the noise leaves room for; ``rounds`` is the budget in two studies."""
    if rounds is None or not rounds.size.is_clear or len(table.attributes) == 1:
        return Course.ONE
    target = (*table.targets, table.attributes[-1].name)[0]
    random = {"target": target, "count": 20, "leaves": _LEAVES, "seed": 1}
    document = table.model_dump(mode="json")
    drawn = schema_from_document({**document, "tables": [], "random_trees": random})
    noise = PooledNoises.of(drawn, requested, owner_rows).rows(Noised.CELL)
    return Course.BOTH if sum(owner_rows) >= CLEAR * noise * _LEAVES else Course.ROUNDS


def _bins(attribute: Numeric, size: int) -> int:
    """Bins of a number where others have ``size``; 0 for a histogram."""
    if size == 0 or isinstance(attribute, Date | Ordinal):
        return 0
    if isinstance(attribute.bins, tuple):
        return len(attribute.bins) + 1 if len(attribute.bins) < WHOLE * size else 0
    if not attribute.integer or attribute.spikes:
        return size
    lower, upper = attribute.bounds
    whole = floor(upper) - ceil(lower) + 1
    return whole if 2 <= whole <= WHOLE * size else 0
