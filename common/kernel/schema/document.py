"""The schema: attributes, grid and row limit of a table, as one document with a digest.

The canonical form is JSON with sorted keys, no blanks, every default written out, in UTF-8; the
digest is its SHA-256. Two schemas with one digest code every row alike.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from dppca.common.kernel.documents.faults import explain_faults
from dppca.common.kernel.documents.stated_fields import NUMBER, TRUTH, WHOLE
from dppca.common.kernel.documents.tables import html_table
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.attributes import (
    Attribute,
    Categorical,
    MissingValues,
    Name,
    Numeric,
    describe_values,
)
from dppca.common.kernel.schema.cells import Cells, make_cells
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from dppca.common.kernel.schema.missing_codes import resolve_codes
from dppca.common.kernel.schema.partitions import (
    MAX_ALL_CELLS,
    MAX_TABLES,
    CountedTable,
    Partition,
    make_partition,
)
from dppca.common.kernel.schema.splits import Public, code_thresholds
from dppca.common.kernel.schema.units import NeighbourRelation, Unit

MAX_COLUMNS = 8192  # coded: a release has some half of their square
MAX_TARGETS = 16  # attributes whose products weigh more
MAX_SQUARE_WEIGHT = 64  # times the weight of other products
FINEST_BITS = 14
"""Resolution of every schema's grid: coded rows in real units are multiples of ``2**-14``."""


class RowNorm(BaseModel):
    """Second coding: rows of numerics are scaled into the unit ball.

    A value becomes ``(x - centre) / scale``; the row is multiplied by ``min(1, 1/norm)`` and
    rounded toward zero, so its norm never exceeds 1 in exact integers.

    Attributes
    ----------
    include_sums
        True releases column sums. Without them the second moment is decomposed around ``centre``,
        not around the mean.
    halved_products
        True gives the noise of products of two columns half of the variance, at no cost. For
        Gaussian noise alone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    include_sums: Annotated[bool, TRUTH] = True
    halved_products: Annotated[bool, TRUTH] = False


class Schema(BaseModel):
    """Attributes with public bounds and categories, and the coding of rows as integers.

    Attributes
    ----------
    resolution_bits
        ``g``: a coded value is an integer number of ``2**-g``.
    max_rows_per_person
        ``k``: the most rows of one person at one owner. Every sensitivity is multiplied by it. The
        sites assert it; no software can check it. A schema without it only codes rows, so a study
        requires it, or ``unit: person``.
    unit
        ``row``, or ``person``: all rows of one person together weigh as one row, however many they
        are, so that no number of rows has to be agreed on. Each owner has a column that tells
        people apart (``key`` in its policy). The number of people is public, that of rows is not.
    rows_counted
        ``c``: with ``unit: person``, k rows of one person weigh as ``min(k, c)`` rows. It comes
        from public knowledge, never from the rows. More weight of people with many rows costs ``c``
        times the noise. Above 1 the total weight is secret and leaves with noise.
    neighbours
        What the promise compares: tables in which rows of a person are ``replaced``, which leaves
        the number of rows public, or ``added`` or taken away, which keeps it secret: the number
        leaves with noise.
    count_weight
        Weight of the number of rows where it leaves with noise, against products; its product with
        ``4**g`` must be an integer. More weight means less noise on it and more on everything else.
    sum_weight
        ``w``: weight of column sums against products; ``w * 2**g`` must be an integer.
    row_norm
        For unit-ball rows; without it, box coding.
    histogram_weight
        ``h``: weight of the released histograms against products; ``h * 4**g`` must be an integer.
        More weight means less noise on histograms and more on everything else.
    targets
        The most important attributes, such as those that a classifier predicts. Their products with
        others have ``target_weight`` times less noise, everything else a little more. They need a
        ``sum_weight`` of at least 1/2.
    target_weight
        Weight of the products with targets.
    square_weight
        Weight of the squares of numerics. Variances of numerics then have as many times less noise;
        everything else has more only from some weight on, which `dppca-curator plan` finds.
    tables
        Tables of a few attributes, and trees, in whose cells rows are counted, so that synthetic
        rows keep what products of pairs do not show. Each adds a little noise to everything else.
        Not with ``row_norm``.
    tables_weight
        Weight of these counts against products; its product with ``4**g`` must be an integer.
    only_tables
        True in a study that continues another: it releases only the counts of its tables.
    missing_values
        Codes for a missing value, in every column and format, with words for people: ``{-99:
        refused, 98: not known}``, or a list. An attribute's own list takes its place; ``{}`` is
        none.
    attributes
        In the order of the coded columns.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    resolution_bits: Annotated[int, Field(ge=1, le=FINEST_BITS), WHOLE] = 10
    max_rows_per_person: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] | None = None
    unit: Unit = Unit.ROW
    rows_counted: Annotated[int, Field(ge=1, le=1_000_000), WHOLE] = 1
    neighbours: NeighbourRelation = NeighbourRelation.REPLACED
    count_weight: Annotated[float, Field(gt=0, le=64, allow_inf_nan=False), NUMBER] = 1.0
    sum_weight: Annotated[float, Field(gt=0, le=64, allow_inf_nan=False), NUMBER] = 1.0
    row_norm: RowNorm | None = None
    histogram_weight: Annotated[float, Field(gt=0, le=64, allow_inf_nan=False), NUMBER] = 1.0
    targets: Annotated[tuple[Name, ...], Field(max_length=MAX_TARGETS)] = ()
    target_weight: Annotated[int, Field(ge=2, le=64), WHOLE] = 2
    square_weight: Annotated[int, Field(ge=1, le=MAX_SQUARE_WEIGHT), WHOLE] = 1
    tables: Annotated[tuple[CountedTable, ...], Field(max_length=MAX_TABLES)] = ()
    tables_weight: Annotated[float, Field(gt=0, le=64, allow_inf_nan=False), NUMBER] = 1.0
    only_tables: Annotated[bool, TRUTH] = False
    missing_values: MissingValues = ()
    attributes: Annotated[tuple[Attribute, ...], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _trees_written_out(cls, document: Any) -> Any:
        """Refuse what only a study file may ask for."""
        if isinstance(document, Mapping) and document.get("random_trees") is not None:
            raise ValueError(
                "random_trees is for a study file: dppca.study_from_yaml and `dppca-curator "
                "study create` write its trees out as tables"
            )
        return document

    @model_validator(mode="after")
    def _with_codes(self) -> Self:
        """Give each attribute its codes for missing: what reads a cell asks its attribute alone."""
        resolved = tuple(resolve_codes(each, self.missing_values) for each in self.attributes)
        object.__setattr__(self, "attributes", resolved)
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_distinct("attribute names", [attribute.name for attribute in self.attributes])
        for attribute in self.attributes:
            scaled = isinstance(attribute, Numeric) and attribute.scale is not None
            if self.row_norm is not None and not scaled:
                raise ValueError(
                    f"row_norm takes numerics with centre and scale only: {attribute.name}"
                )
            if self.row_norm is None and scaled:
                raise ValueError(f"centre and scale need row_norm: {attribute.name}")
        columns = sum(map(len, self._columns))
        if not 2 <= columns <= MAX_COLUMNS:
            raise ValueError(
                f"the schema has {columns} coded columns; 2 to {MAX_COLUMNS} are possible"
            )
        for attribute, kinds in zip(self.attributes, self._columns, strict=True):
            if kinds == (ColumnKind.INDICATOR,):
                raise ValueError(f"products: bins needs two bins at least: {attribute.name}")
        _check_distinct("names of coded columns", self.column_names)
        if (Fraction(self.sum_weight) * 2**self.resolution_bits).denominator != 1:
            raise ValueError("sum_weight times 2**resolution_bits must be an integer")
        if (Fraction(self.histogram_weight) * 4**self.resolution_bits).denominator != 1:
            raise ValueError("histogram_weight times 4**resolution_bits must be an integer")
        if (Fraction(self.tables_weight) * 4**self.resolution_bits).denominator != 1:
            raise ValueError("tables_weight times 4**resolution_bits must be an integer")
        if (Fraction(self.count_weight) * 4**self.resolution_bits).denominator != 1:
            raise ValueError("count_weight times 4**resolution_bits must be an integer")
        if self.count_weight != 1 and not self.with_count:
            raise ValueError(
                "count_weight is for a number of rows that leaves with noise: it needs "
                "neighbours: added, or rows_counted above 1, without only_tables"
            )
        if self.square_weight > 1 and (self.only_tables or not self.has_squares):
            raise ValueError(
                "square_weight needs a numeric with bounds whose square is released: not with "
                "row_norm, only_tables, or labels and products: bins alone"
            )
        return self

    @model_validator(mode="after")
    def _one_unit(self) -> Self:
        if self.unit is Unit.PERSON and self.max_rows_per_person is not None:
            raise ValueError(
                "unit: person protects people with any number of rows: leave max_rows_per_person "
                "out"
            )
        if self.unit is Unit.ROW and "rows_counted" in self.model_fields_set:
            raise ValueError("rows_counted is for unit: person")
        return self

    @model_validator(mode="after")
    def _possible_tables(self) -> Self:
        if self.tables and self.row_norm is not None:
            raise ValueError("tables is for attributes with bounds or labels, not for row_norm")
        if self.only_tables and (self.targets or not self.tables):
            raise ValueError("only_tables needs tables, and no targets: nothing else is released")
        n_cells = sum(partition.n_cells for partition in self.partitions)
        if n_cells > MAX_ALL_CELLS:
            raise ValueError(
                f"the tables have {n_cells} cells; {MAX_ALL_CELLS} are possible in all"
            )
        return self

    @model_validator(mode="after")
    def _known_targets(self) -> Self:
        if not self.targets:
            return self
        _check_distinct("targets", self.targets)
        unknown = set(self.targets) - {attribute.name for attribute in self.attributes}
        if unknown:
            raise ValueError(f"targets names no attribute: {', '.join(sorted(unknown))}")
        if self.row_norm is not None:
            raise ValueError("targets is for attributes with bounds or labels, not for row_norm")
        if self.sum_weight < 0.5:
            raise ValueError("targets needs a sum_weight of at least 0.5")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave later fields out of a document unless they have an effect."""
        document: dict[str, Any] = written(self)
        dull: list[str] = []
        if not any(isinstance(each, Numeric) and each.histogram for each in self.attributes):
            dull.append("histogram_weight")
        dull.append("unit" if self.unit is Unit.ROW else "max_rows_per_person")
        if self.rows_counted == 1:
            dull.append("rows_counted")
        if not self.targets:
            dull += ["targets", "target_weight"]
        if self.square_weight == 1:
            dull.append("square_weight")
        if self.neighbours is NeighbourRelation.REPLACED:
            dull.append("neighbours")
        if self.count_weight == 1:
            dull.append("count_weight")
        if self.row_norm is not None and not self.row_norm.halved_products:
            document.get("row_norm", {}).pop("halved_products", None)
        if not self.tables:
            dull += ["tables", "tables_weight"]
        if not self.only_tables:
            dull.append("only_tables")
        of_all = document.get("missing_values", {})
        for each in document.get("attributes", ()):
            if each.get("missing_values", {}) == of_all:
                each.pop("missing_values", None)
        if not self.missing_values:
            dull.append("missing_values")
        for name in dull:  # a caller may have left it out
            document.pop(name, None)
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> Self:
        """Validate a mapping; `SettingError` names every field at fault."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            explanation = explain_faults(error, document, kind=cls, title="the schema")
            raise SettingError(explanation) from error

    def canonical_bytes(self) -> bytes:
        """Return the document that is hashed."""
        return canonical_json(self.model_dump(mode="json"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document, in hexadecimal."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    @cached_property
    def layout(self) -> Layout:
        """Columns of a coded row and entries of a packed vector."""
        return Layout(
            kinds=tuple(chain.from_iterable(self._columns)),
            attribute_of=tuple(index for index, each in enumerate(self._columns) for _ in each),
            resolution_bits=self.resolution_bits,
            scaled_weight=int(Fraction(self.sum_weight) * 2**self.resolution_bits),
            unit_ball=self.row_norm is not None,
            with_sums=not self.only_tables
            and (self.row_norm is None or self.row_norm.include_sums),
            with_products=not self.only_tables,
            histograms=tuple((index, cells.n_cells) for index, cells in self.histograms),
            histogram_unit=int(Fraction(self.histogram_weight) * 4**self.resolution_bits),
            targets=tuple(self.find_index(name) for name in self.targets),
            target_weight=self.target_weight,
            tables=tuple(partition.n_cells for partition in self.partitions),
            table_unit=int(Fraction(self.tables_weight) * 4**self.resolution_bits),
            square_weight=self.square_weight,
            halved_products=self.row_norm is not None and self.row_norm.halved_products,
            count_unit=int(Fraction(self.count_weight) * 4**self.resolution_bits)
            if self.with_count
            else 0,
        )

    @cached_property
    def public(self) -> Public:
        """Return the attributes as partitions use them."""
        return Public(self.attributes, self.cells, self.resolution_bits)

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        """The cells of each table; `ValueError` names the first that is at fault, from 1."""
        nodes = chain.from_iterable(table.tree for table in self.tables)
        code_thresholds(nodes, self.public)
        made = []
        for number, table in enumerate(self.tables, 1):
            try:
                made.append(make_partition(table, self.public))
            except ValueError as error:
                raise ValueError(f"tables, entry {number}: {error}") from error
        return tuple(made)

    @cached_property
    def _columns(self) -> tuple[tuple[ColumnKind, ...], ...]:
        """Kinds of the coded columns of each attribute."""
        columns: list[tuple[ColumnKind, ...]] = []
        for attribute, cells in zip(self.attributes, self.cells, strict=True):
            if isinstance(attribute, Categorical):
                columns.append((ColumnKind.INDICATOR,) * len(attribute.labels))
            elif not isinstance(attribute, Numeric):
                columns.append((ColumnKind.BINARY,))
            elif attribute.products is not None and cells is not None:
                columns.append((ColumnKind.INDICATOR,) * cells.n_cells)
            elif attribute.missing == "indicator":
                columns.append((ColumnKind.MISSING, ColumnKind.NUMERIC))
            else:
                columns.append((ColumnKind.NUMERIC,))
        return tuple(columns)

    @cached_property
    def cells(self) -> tuple[Cells | None, ...]:
        """Cells of each attribute; None for labels and for unit-ball rows."""
        return tuple(
            make_cells(attribute)
            if isinstance(attribute, Numeric) and self.row_norm is None
            else None
            for attribute in self.attributes
        )

    @cached_property
    def histograms(self) -> tuple[tuple[int, Cells], ...]:
        """Index and cells of each attribute whose histogram is released, in order."""
        if self.only_tables:
            return ()
        return tuple(
            (index, cells)
            for index, (attribute, cells) in enumerate(
                zip(self.attributes, self.cells, strict=True)
            )
            if isinstance(attribute, Numeric) and attribute.histogram and cells is not None
        )

    @property
    def has_secret_rows(self) -> bool:
        """Whether the number of rows, or the total weight of people, leaves with noise alone.

        A person who is replaced changes a total weight, unless each weighs as one row.
        """
        return self.neighbours is NeighbourRelation.ADDED or self.rows_counted > 1

    @property
    def counted_of_person(self) -> int | None:
        """Most rows of a person that count, c; None where rows are protected and not people."""
        return self.rows_counted if self.unit is Unit.PERSON else None

    @property
    def with_count(self) -> bool:
        """Whether the number of rows is secret, and one noised number of the release."""
        return self.has_secret_rows and not self.only_tables

    @property
    def has_squares(self) -> bool:
        """Whether box coding has a column whose square is released."""
        return self.row_norm is None and any(ColumnKind.NUMERIC in each for each in self._columns)

    @property
    def products_of_bins(self) -> tuple[str, ...]:
        """Names of the numerics whose bins enter products."""
        if self.only_tables:
            return ()
        return tuple(
            each.name
            for each in self.attributes
            if isinstance(each, Numeric) and each.products is not None
        )

    @property
    def counted(self) -> tuple[str, ...]:
        """Tables and trees that rows are counted in, in words; trees by their target."""
        tables = [
            f"{' and '.join(table.table)} together ({partition.n_cells} cells)"
            for table, partition in zip(self.tables, self.partitions, strict=True)
            if table.table
        ]
        leaves: dict[str, list[int]] = {}
        for table in self.tables:
            if table.target is not None:
                leaves.setdefault(table.target, []).append(len(table.tree) // 2 + 1)
        trees = [
            f"trees by {target} ({sum(each)} leaves in {len(each)})"
            for target, each in leaves.items()
        ]
        return (*tables, *trees)

    def find_index(self, name: str) -> int:
        """Return the index of the attribute called ``name``; ``KeyError`` if there is none."""
        for index, attribute in enumerate(self.attributes):
            if attribute.name == name:
                return index
        raise KeyError(name)

    def largest_norm(self, *, without: str) -> float:
        """Bound on the length of a coded row, in units of the values, without one attribute.

        It is 1 for unit-ball rows; else the square root of the sum of 1/4 for each numeric or
        binary attribute and 1 for each categorical or numeric with ``products: bins``. Prover and
        verifier of a released model both use it.
        """
        if self.row_norm is not None:
            return 1.0
        return math.sqrt(
            sum(
                1.0 if ColumnKind.INDICATOR in kinds else 0.25
                for attribute, kinds in zip(self.attributes, self._columns, strict=True)
                if attribute.name != without
            )
        )

    def _repr_html_(self) -> str:
        """Table of the attributes for notebooks."""
        rows = [
            (each.name, each.type, ", ".join(describe_values(each))) for each in self.attributes
        ]
        caption = f"{len(self.attributes)} attributes, {len(self.column_names)} coded columns"
        return html_table(("attribute", "type", "values"), rows, caption=caption)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Name of each coded column.

        Indicators are called ``attribute=category``; indicators of cells have names from
        `Cells.names`, and of missing numbers ``attribute is missing``.
        """
        names: list[str] = []
        for attribute, cells, kinds in zip(self.attributes, self.cells, self._columns, strict=True):
            labels: tuple[str, ...] = ()
            if isinstance(attribute, Categorical):
                labels = attribute.labels
            elif ColumnKind.INDICATOR in kinds and cells is not None:
                labels = cells.names
            if ColumnKind.MISSING in kinds:
                names.append(f"{attribute.name} is missing")
            names += [f"{attribute.name}={label}" for label in labels] or [attribute.name]
        return tuple(names)


def _check_distinct(what: str, names: Sequence[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"{what} must differ: {', '.join(repeated)}")
