"""Costs and gains of each choice of a schema: noise from the sensitivity alone.

A choice changes the sensitivity, and with it, at the same epsilon, the noise of every entry of a
release. An entry of weight w has 1/w of the noise: a column sum has weight ``sum_weight``, a cell
of a histogram ``histogram_weight``, of a table ``tables_weight``, a product with a target
``target_weight``, a numeric's square ``square_weight``, any other product 1.
``products: bins`` also turns one product into many, one for each bin, even for bins with few rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.analysis.study_file import schema_from_document
from dppca.common.kernel.documents.names import nearest_name
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.noise_law import Noised, NoiseLaw
from dppca.common.kernel.privacy.release import schema_sensitivity
from dppca.common.kernel.schema import MAX_COLUMNS, Numeric, Schema
from dppca.common.kernel.schema.document import MAX_SQUARE_WEIGHT, MAX_TARGETS
from dppca.common.kernel.schema.units import Unit
from dppca.common.kernel.study import Study

AS_WRITTEN = "as written"
_TREES = {"count": 20, "leaves": 64, "seed": 1}
_FELT = 0.005  # smaller changes of the noise are not reported


@dataclass(frozen=True, slots=True)
class PooledNoise:
    """Standard deviation of the noise of one kind of pooled sums."""

    rows: Annotated[float, "in rows"]
    share: Annotated[float, "as a share of the rows of all owners"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The study as written, or one alternative, at the same epsilon."""

    choice: Annotated[str, "what is chosen; `as written` is the study as it stands"]
    digest: Annotated[DigestText, "digest of the schema with it"]
    sum_weight: Annotated[float, "weight of column sums"]
    histograms: Annotated[list[str], "numerics whose histogram is released"]
    products_of_bins: Annotated[list[str], "numerics whose bins enter products"]
    targets: Annotated[list[str], "attributes whose products weigh more"]
    product: Annotated[PooledNoise, "noise of a product of two attributes, neither a target"]
    square: Annotated[PooledNoise | None, "noise of a numeric's square"]
    target_product: Annotated[PooledNoise | None, "noise of a product with a target"]
    column_sum: Annotated[PooledNoise | None, "noise of a column's sum"]
    cell: Annotated[PooledNoise | None, "noise of the number of rows in a cell of a histogram"]
    table_cell: Annotated[PooledNoise | None, "noise of the number of rows in a cell of a table"]
    tables: Annotated[int, "tables and trees in whose cells rows are counted"]
    factor: Annotated[float, "the product's noise over that of the study as written"]
    gains: Annotated[tuple[str, ...], "what is gained, compared with the study as written"]
    costs: Annotated[tuple[str, ...], "what is lost, compared with it"]


def compare_choices(
    study: Study, requested: Calibration, targets: Sequence[str], *, owner_rows: Sequence[int]
) -> tuple[Choice, ...]:
    """Return the study as written, followed by the alternatives of its schema.

    The mechanism, epsilon and delta of ``requested``, the study's calibration, are kept;
    ``targets`` are attributes that could become targets, besides the study's own. Raise
    `SettingError` for a name of no attribute, too many names, or a schema that has no
    targets (`row_norm`).
    """
    written = study.table
    _check_targets(written, targets)
    target_names = list(dict.fromkeys([*written.targets, *targets]))
    before = PooledNoises.of(written, requested, owner_rows)
    choices: dict[str, Choice] = {}
    for words, table in (
        (AS_WRITTEN, written),
        *_variants(written, target_names, type(requested.law)),
    ):
        if table is not None and table.digest not in choices:
            noises = PooledNoises.of(table, requested, owner_rows)
            choices[table.digest] = _choice(words, before, noises, n_rows=sum(owner_rows))
    return tuple(choices.values())


def _choice(words: str, written: "PooledNoises", noises: "PooledNoises", *, n_rows: int) -> Choice:
    """Describe a schema by its noise, beside that of the study as written."""

    def noise(kind: Noised) -> PooledNoise:
        return PooledNoise(noises.rows(kind), noises.rows(kind) / n_rows)

    table, layout = noises.table, noises.table.layout
    gains, costs = _beside(written, noises)
    return Choice(
        choice=words,
        digest=table.digest,
        sum_weight=table.sum_weight,
        histograms=[table.attributes[index].name for index, _ in layout.histograms],
        products_of_bins=list(table.products_of_bins),
        targets=list(table.targets),
        product=noise(Noised.PRODUCT),
        square=noise(Noised.SQUARE) if table.has_squares else None,
        target_product=noise(Noised.TARGET_PRODUCT) if table.targets else None,
        column_sum=noise(Noised.SUM) if layout.with_sums else None,
        cell=noise(Noised.BIN) if layout.histograms else None,
        table_cell=noise(Noised.CELL) if table.tables else None,
        tables=len(table.tables),
        factor=noises.rows(Noised.PRODUCT) / written.rows(Noised.PRODUCT),
        gains=gains,
        costs=costs,
    )


def free_square_weight(table: Schema, law: type[NoiseLaw]) -> int:
    """Return the largest weight of squares that leaves a law's sensitivity what it is at 1.

    1 if the schema has no squares, or is in the unit ball, or the law is joint.
    """
    if not table.has_squares or table.only_tables or law.is_joint:
        return 1

    def change(weight: int) -> float:
        shaped = _changed(table, square_weight=weight)
        return law.entry_law().change(schema_sensitivity(table if shaped is None else shaped))

    free, plain = 1, change(1)
    above = MAX_SQUARE_WEIGHT + 1
    while above - free > 1:
        middle = (free + above) // 2
        free, above = (free, middle) if change(middle) > plain else (middle, above)
    return free


def _check_targets(table: Schema, names: Sequence[str]) -> None:
    unknown = sorted(set(names) - {attribute.name for attribute in table.attributes})
    if unknown:
        near = nearest_name(unknown[0], [attribute.name for attribute in table.attributes])
        meant = "" if near is None else f"; did you mean {near}?"
        raise SettingError(f"--target: the study has no attribute {', '.join(unknown)}{meant}")
    if names and table.row_norm is not None:
        raise SettingError("--target: a schema with row_norm has no targets")
    if len({*names, *table.targets}) > MAX_TARGETS:
        raise SettingError(f"--target: a schema has at most {MAX_TARGETS} targets")


def _variants(
    written: Schema, target_names: Sequence[str], law: type[NoiseLaw]
) -> Iterator[tuple[str, Schema | None]]:
    """Yield alternatives one at a time, then together all that help synthetic rows."""
    together: dict[str, Any] = {}
    if written.layout.with_sums:
        for weight in (0.5, 1.0):
            yield f"sum_weight: {weight:g}", _changed(written, sum_weight=weight)
        together["sum_weight"] = 0.5
    if written.row_norm is not None and law.halves_products and not written.layout.halved_products:
        norm = {**written.row_norm.model_dump(), "halved_products": True}
        yield "row_norm: halved_products: true", _changed(written, row_norm=norm)
    if (free := free_square_weight(written, law)) != written.square_weight:
        yield f"square_weight: {free}", _changed(written, square_weight=free)
    if _numerics(written):
        together["histogram"] = True
        binned, cut = written.products_of_bins, _with_bins(written)
        which = "all other numerics" if binned else "all numerics"
        for released in (True, False):
            words = f"histogram: {str(released).lower()}, {which}"
            yield words, _changed(written, histogram=released)
        if binned:
            words = f"histogram: true in place of products: bins, {', '.join(binned)}"
            yield words, _changed(written, binned=[])
        if more := [name for name in cut if name not in binned]:
            yield f"products: bins, {', '.join(more)}", _changed(written, binned=cut)
    if target_names:
        together["targets"] = target_names
        for names in ([], *([name] for name in target_names), target_names):
            raised = ", sum_weight: 0.5" if names and written.sum_weight < 0.5 else ""
            yield f"targets: [{', '.join(names)}]{raised}", _changed(written, targets=names)
    if written.tables:
        yield "no tables", _changed(written, tables=[])
    elif target_names:
        trees = {"target": target_names[0], **_TREES}
        words = ", ".join(f"{key}: {value}" for key, value in trees.items())
        yield f"random_trees: {{{words}}}", _changed(written, random_trees=trees)
    if len(together) > 1:
        yield "all of: " + ", ".join(together), _changed(written, **together)


def _changed(table: Schema, **changes: Any) -> Schema | None:
    """Return the schema with other weights or targets, or with other shapes of its numerics.

    Return None if its trees split by what it then lacks, such as missing values.
    ``histogram`` applies to numerics without ``products: bins``; ``binned`` names those with it.
    """
    document = table.model_dump(mode="json")
    histogram, binned = changes.pop("histogram", None), changes.pop("binned", None)
    document.update(changes)
    if document.get("targets"):
        document["sum_weight"] = max(document["sum_weight"], 0.5)
    for attribute in document["attributes"]:
        if attribute["type"] in ("binary", "categorical"):
            continue
        if histogram is not None and "products" not in attribute:
            attribute["histogram"] = histogram
            if not histogram:
                attribute.pop("spikes", None)
                if attribute.get("missing") == "level":
                    del attribute["missing"]
        if binned is not None and attribute["name"] in binned:
            attribute.pop("histogram", None)
            attribute["products"] = "bins"
            if "missing" in attribute:
                attribute["missing"] = "level"
        elif binned is not None and attribute.pop("products", None):
            attribute["histogram"] = True
            if "missing" in attribute:
                attribute["missing"] = "indicator"
    drop_square_weight(document)
    try:
        return schema_from_document(document)
    except SettingError:
        if not table.tables:
            raise
        return None


def drop_square_weight(document: dict[str, Any]) -> None:
    """Take the weight of squares out of a schema's document in which none is left."""
    labels = ("binary", "categorical")
    if all(each["type"] in labels or "products" in each for each in document["attributes"]):
        document.pop("square_weight", None)


def _numerics(table: Schema) -> list[Numeric]:
    if table.row_norm is not None:
        return []
    return [attribute for attribute in table.attributes if isinstance(attribute, Numeric)]


def _with_bins(table: Schema) -> list[str]:
    """Numerics whose bins can enter products; empty if there would be too many columns."""
    binnable = [
        (attribute.name, cells.n_cells)
        for attribute, cells in zip(table.attributes, table.cells, strict=True)
        if isinstance(attribute, Numeric) and cells is not None and attribute.bins is not None
    ]
    if table.layout.n_columns + sum(n for _, n in binnable) > MAX_COLUMNS:
        return []
    return [name for name, n_cells in binnable if n_cells > 1]


def _shaped(table: Schema) -> list[str]:
    """Numerics whose rows in each cell are released."""
    return [*table.products_of_bins, *(each.name for each in _numerics(table) if each.histogram)]


def calibrate_alike(table: Schema, requested: Calibration) -> Calibration:
    """Return the noise of a release of another schema, at the claim and trust of a calibration."""
    found = calibrate_noise(
        type(requested.law),
        schema_sensitivity(table),
        epsilon=requested.epsilon,
        delta=requested.delta,
        max_rows_per_person=1 if table.unit is Unit.PERSON else table.max_rows_per_person or 1,
        halved_products=table.layout.halved_products,
        layout=table.layout,
        honest=requested.n_honest_owners,
        rows_counted=table.counted_of_person,
    )
    return replace(found, n_honest_owners=requested.n_honest_owners)


@dataclass(frozen=True, slots=True)
class PooledNoises:
    """The noise of a schema's release by kind of entry, at the cost of a calibration."""

    table: Schema
    calibration: Calibration
    owner_rows: Sequence[int]

    @classmethod
    def of(cls, table: Schema, requested: Calibration, owner_rows: Sequence[int]) -> Self:
        """Calibrate a schema like a study."""
        return cls(table, calibrate_alike(table, requested), owner_rows)

    def rows(self, kind: Noised) -> float:
        """Return the standard deviation of an entry over its weight, in rows."""
        counts = kind in (Noised.BIN, Noised.CELL)
        noise = self.calibration.of_counts if counts else self.calibration
        share = entry_noise(
            self.table.layout,
            deviation=noise.law.deviation_of(kind, self.table.layout),
            owner_rows=self.owner_rows,
            mechanisms=noise.mechanisms(len(self.owner_rows)),
        )
        return share * sum(self.owner_rows)

    def beside(self, name: str) -> float:
        """Return that of a product with an attribute."""
        return self.rows(Noised.TARGET_PRODUCT if name in self.table.targets else Noised.PRODUCT)


def _beside(before: PooledNoises, noises: PooledNoises) -> tuple[tuple[str, ...], tuple[str, ...]]:
    written, table = before.table, noises.table

    def factor(kind: Noised) -> float:
        return noises.rows(kind) / before.rows(kind)

    factors = {"products": factor(Noised.PRODUCT)}
    for name in dict.fromkeys([*written.targets, *table.targets]):
        factors[f"products with {name}"] = noises.beside(name) / before.beside(name)
    if table.square_weight != written.square_weight and table.has_squares:
        factors["squares"] = factor(Noised.SQUARE)
    if table.layout.with_sums:
        factors["column sums"] = factor(Noised.SUM)
    if table.layout.histograms and written.layout.histograms:
        factors["cells"] = factor(Noised.BIN)
    if table.tables and written.tables:
        factors["cells of tables"] = factor(Noised.CELL)
    gains, costs = [], []
    for what, names in (
        ("the shape of", _shaped),
        ("relations that do not rise or fall steadily, of", lambda table: table.products_of_bins),
    ):
        had, has = (set(names(each)) for each in (written, table))
        gains += [f"{what} {', '.join(sorted(has - had))}"] if has - had else []
        costs += [f"{what} {', '.join(sorted(had - has))}"] if had - has else []
    had_tables, has_tables = len(written.tables), len(table.tables)
    if has_tables > had_tables:
        gains.append("relations of several attributes with a target, as far as trees divide them")
    if has_tables < had_tables:
        costs.append("relations that only tables and trees show")
    times: dict[str, list[str]] = {}
    for what, each in sorted(factors.items(), key=lambda item: item[1]):
        if abs(each - 1) > _FELT:
            times.setdefault(f"{each:.2f}", []).append(what)
    for text, kinds in times.items():
        words = f"{text} times the noise on {', '.join(kinds)}"
        (gains if float(text) < 1 else costs).append(words)
    return tuple(gains), tuple(costs)
