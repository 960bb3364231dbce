"""Tables of several parties as arrays, coded by one public schema.

An array has one column per attribute of the schema: numbers for numerics, codes 0, 1, ... of the
labels for binaries and categoricals. The federation codes any row by rule and counts its
corrections (`dppca.common.kernel.schema.coding`); the estimators refuse rows outside the schema, so
that they fit exactly the rows given.

Limits: arrays in memory. The parties are ordered by name.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dppca.common.analysis.estimators.base.masks import (
    require_labels,
    require_plain,
    require_unmasked,
)
from dppca.common.analysis.estimators.base.settings import check_rows_per_person
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Column, ColumnKind, Numeric, Schema, encode
from dppca.common.kernel.schema.units import NeighbourRelation

NO_INDICATOR = "the paper's form has no column for missing values: use missing: level, or none"


@dataclass(frozen=True, slots=True)
class PartyRows:
    """Parties: ``names``, shape (m,), sorted; ``rows`` has m arrays of their rows' indices."""

    names: NDArray[Any]
    rows: list[NDArray[np.intp]]


def group_rows(groups: ArrayLike | None, n_rows: int) -> PartyRows:
    """Group rows by one party name per row, shape (n_rows,); None is one party with all rows."""
    if groups is None:
        return PartyRows(np.array(["all"]), [np.arange(n_rows)])
    require_unmasked(groups=groups)
    require_labels("groups", groups)
    owner = np.asarray(groups)
    if owner.shape != (n_rows,):
        raise DataError(
            f"groups must name the party of each of {n_rows} rows, not be {owner.shape}"
        )
    names, codes = np.unique(owner, return_inverse=True)
    return PartyRows(names, [np.flatnonzero(codes == code) for code in range(len(names))])


def make_schema(bounds: Any, n_columns: int, *, max_rows_per_person: int) -> Schema:
    """Make a schema of numerics from two public bounds: numbers, or arrays (n_columns,)."""
    if bounds is None:
        raise SettingError(
            "give a schema, or bounds=(lower, upper): public bounds, not taken from rows"
        )
    require_plain(bounds=bounds)
    try:
        lower, upper = (np.broadcast_to(np.asarray(b, float), (n_columns,)) for b in bounds)
        attributes = [
            {"name": f"x{i}", "type": "numeric", "lower": float(a), "upper": float(b)}
            for i, (a, b) in enumerate(zip(lower, upper, strict=True))
        ]
        return Schema.from_document(
            {"attributes": attributes, "max_rows_per_person": max_rows_per_person}
        )
    except SettingError as error:
        if n_columns < 2:
            raise DataError(
                f"X has 1 feature(s), n_features={n_columns}: components need two or more"
            ) from error
        raise SettingError(f"bounds are not bounds: {error}") from error
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"bounds must be a pair of numbers, or of arrays of {n_columns} numbers"
        ) from error


def resolve_schema(
    schema: Schema | None, bounds: Any, n_columns: int, *, max_rows_per_person: object
) -> Schema:
    """Return the given schema, if it has as many columns, or one made from the bounds.

    Its row limit is its own or else the given one. Raise `SettingError` if there is no row limit,
    two limits differ, or the schema does not fit the columns or keeps the number of rows secret.
    """
    if schema is not None and schema.neighbours is not NeighbourRelation.REPLACED:
        raise SettingError(
            "this method's number of rows is public: take neighbours out of the schema"
        )
    from_schema = None if schema is None else schema.max_rows_per_person
    k = check_rows_per_person(from_schema if max_rows_per_person is None else max_rows_per_person)
    if from_schema not in (None, k):
        raise SettingError(
            f"max_rows_per_person is {k}, but the schema says {from_schema}: give one of them only"
        )
    if schema is None:
        return make_schema(bounds, n_columns, max_rows_per_person=k)
    if len(schema.attributes) != n_columns:
        raise SettingError(f"X has {n_columns} columns, the schema {len(schema.attributes)}")
    if from_schema is None:
        document = {**schema.model_dump(mode="json"), "max_rows_per_person": k}
        return Schema.from_document(document)
    return schema


def encode_rows(schema: Schema, rows: NDArray[np.float64]) -> NDArray[np.int32]:
    """Code rows (n_rows, n_attributes) as integers (n_rows, p).

    Raise `DataError` if a value is outside its attribute's bounds or not one of its labels' codes.
    """
    columns: list[Column] = []
    for index, attribute in enumerate(schema.attributes):
        values = rows[:, index]
        if isinstance(attribute, Numeric):
            lower, upper = attribute.lower, attribute.upper
            if lower is None or upper is None:
                raise SettingError("the schema scales rows into the unit ball: give bounds instead")
            is_level = np.isnan(values) & (attribute.missing is not None)
            if not np.all(is_level | (values >= lower) & (values <= upper)):
                raise DataError(
                    f"column {index} ({attribute.name}) leaves its bounds, {lower} to {upper}: "
                    "declare wider public bounds, or clip it by a public rule first"
                )
            columns.append(np.ascontiguousarray(values))
            continue
        n_labels = len(attribute.labels)
        if not np.all((values >= 0) & (values < n_labels) & (values == np.floor(values))):
            raise DataError(
                f"column {index} ({attribute.name}) holds something else than the codes 0 to "
                f"{n_labels - 1} of its labels"
            )
        columns.append(values.astype(np.int32))
    return encode(schema, columns)


def to_coded_units(schema: Schema, codes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Convert integer rows (n_rows, p) to coded units: numerics and binaries in [-1/2, 1/2]."""
    real: NDArray[np.float64] = codes / 2.0**schema.resolution_bits
    return real


def to_unit_interval(schema: Schema) -> NDArray[np.float64]:
    """Offset from coded units to [0, 1], shape (p,): a half, but 0 for indicators.

    Raise `SettingError` for `missing: indicator`: the paper has no column of 0 and a half.
    """
    kinds = schema.layout.kinds
    if schema.layout.missing_columns:
        raise SettingError(NO_INDICATOR)
    return np.array([0.0 if kind is ColumnKind.INDICATOR else 0.5 for kind in kinds])
