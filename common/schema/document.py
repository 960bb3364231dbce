"""The schema: attributes, grid and row limit of a table, as one document with a digest.

The canonical form is JSON with sorted keys, no blanks, every default written out, in UTF-8; the
digest is its SHA-256. Two schemas with one digest code every row alike.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from common.schema.attributes import Attribute, Categorical, Numeric
from common.schema.layout import ColumnKind, Layout

MAX_COLUMNS = 8192


class RowNorm(BaseModel):
    """Second coding: rows of numerics brought into the unit ball.

    A value becomes ``(x - centre) / scale``; the row is multiplied by ``min(1, 1/norm)`` and
    rounded toward zero, so its norm never exceeds 1 in exact integers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    include_sums: bool = True


class Schema(BaseModel):
    """Attributes with public bounds and categories, and how rows become integers.

    Attributes
    ----------
    resolution_bits
        ``g``: a coded value is an integer number of ``2**-g``.
    max_rows_per_person
        ``k``: the most rows one person may have at one owner. Every sensitivity is multiplied
        by it. It is an assertion of the sites, which no software can check.
    sum_weight
        ``w``: weight of column sums against products; ``w * 2**g`` must be an integer.
    row_norm
        Present for unit-ball rows; absent for box coding.
    attributes
        In the order of the coded columns.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    resolution_bits: Annotated[int, Field(ge=1, le=14)] = 10
    max_rows_per_person: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    sum_weight: Annotated[float, Field(gt=0, le=64, allow_inf_nan=False)] = 1.0
    row_norm: RowNorm | None = None
    attributes: Annotated[tuple[Attribute, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_distinct("attribute names", [attribute.name for attribute in self.attributes])
        for attribute in self.attributes:
            scaled = isinstance(attribute, Numeric) and attribute.scale is not None
            if self.row_norm is not None and not scaled:
                message = f"row_norm takes numerics with centre and scale only: {attribute.name}"
                raise ValueError(message)
            if self.row_norm is None and scaled:
                message = f"centre and scale need row_norm: {attribute.name}"
                raise ValueError(message)
        columns = sum(_width(attribute) for attribute in self.attributes)
        if not 2 <= columns <= MAX_COLUMNS:
            message = f"the schema has {columns} coded columns; 2 to {MAX_COLUMNS} are possible"
            raise ValueError(message)
        _check_distinct("names of coded columns", self.column_names)
        if (Fraction(self.sum_weight) * 2**self.resolution_bits).denominator != 1:
            message = "sum_weight times 2**resolution_bits must be an integer"
            raise ValueError(message)
        return self

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> Schema:
        """Validate a mapping; raises pydantic's ``ValidationError``."""
        return cls.model_validate(document)

    def canonical_bytes(self) -> bytes:
        """The document that is hashed."""
        return canonical_json(self.model_dump(mode="json"))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical document, in hexadecimal."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    @cached_property
    def layout(self) -> Layout:
        """Columns of a coded row and entries of a packed vector."""
        kinds: list[ColumnKind] = []
        attribute_of: list[int] = []
        for index, attribute in enumerate(self.attributes):
            width = _width(attribute)
            if isinstance(attribute, Numeric):
                kind = ColumnKind.NUMERIC
            elif isinstance(attribute, Categorical):
                kind = ColumnKind.INDICATOR
            else:
                kind = ColumnKind.BINARY
            kinds += [kind] * width
            attribute_of += [index] * width
        return Layout(
            kinds=tuple(kinds),
            attribute_of=tuple(attribute_of),
            resolution_bits=self.resolution_bits,
            scaled_weight=int(Fraction(self.sum_weight) * 2**self.resolution_bits),
            unit_ball=self.row_norm is not None,
            with_sums=self.row_norm is None or self.row_norm.include_sums,
        )

    def index_of(self, name: str) -> int:
        """Index of the attribute called ``name``; ``KeyError`` where there is none."""
        for index, attribute in enumerate(self.attributes):
            if attribute.name == name:
                return index
        raise KeyError(name)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Name of each coded column; indicators are called ``attribute=category``."""
        names: list[str] = []
        for attribute in self.attributes:
            if isinstance(attribute, Categorical):
                names += [f"{attribute.name}={label}" for label in attribute.categories]
            else:
                names.append(attribute.name)
        return tuple(names)


def canonical_json(document: object) -> bytes:
    """JSON with one form only: sorted keys, no blanks, UTF-8, finite numbers."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _check_distinct(what: str, names: Sequence[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        message = f"{what} must differ: {', '.join(repeated)}"
        raise ValueError(message)


def _width(attribute: Attribute) -> int:
    return len(attribute.categories) if isinstance(attribute, Categorical) else 1
