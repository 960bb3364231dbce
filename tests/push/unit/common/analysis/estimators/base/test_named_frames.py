"""A frame with a schema's columns is read by names and labels; anything else is an array."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator

from dppca.common.analysis.estimators.base.named_frames import read_named
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Schema
from tests.support.latent_rows import make_rows
from tests.support.studies import make_study

SCHEMA = make_study("latent").table
ROWS = make_rows(300)
CODES = np.column_stack(
    [
        *(ROWS[f"x{i}"].to_numpy() for i in range(4)),
        np.array(ROWS["ill"].to_pylist()) == "yes",
        [("red", "green", "blue").index(label) for label in ROWS["colour"].to_pylist()],
    ]
).astype(float)
KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "pandas with categories": lambda table: table.to_pandas().astype({"colour": "category"}),
    "polars": pl.from_arrow,
    "arrow": lambda table: table,
}


class _Anything(BaseEstimator):  # type: ignore[misc]
    """An estimator, as far as columns go."""


@pytest.mark.parametrize("kind", KINDS)
def test_labels_become_the_codes_of_an_array(kind: str) -> None:
    estimator = _Anything()
    frame = KINDS[kind](ROWS)
    values = read_named(estimator, frame, SCHEMA, reset=True)
    assert values is not None
    assert np.array_equal(values, CODES)
    assert list(estimator.feature_names_in_) == ROWS.column_names


@pytest.mark.parametrize(
    "other", [CODES, CODES.tolist(), pd.DataFrame(CODES), ROWS.to_pandas().drop(columns="ill")]
)
def test_what_has_not_the_schemas_columns_is_left_to_others(other: Any) -> None:
    assert read_named(_Anything(), other, SCHEMA, reset=True) is None
    assert read_named(_Anything(), ROWS.to_pandas(), None, reset=True) is None


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("ill", "SECRET", "column ill holds labels that the schema does not list"),
        ("ill", None, "column ill has missing values"),
        ("x0", "SECRET", "column x0 holds values that are not numbers"),
        ("x0", None, "column x0 has missing values"),
        ("x0", float("inf"), "column x0 holds values that are not numbers"),
    ],
)
def test_what_the_schema_has_no_rule_for_is_refused_without_a_value(
    column: str, value: Any, said: str
) -> None:
    frame = ROWS.to_pandas().astype({column: object})
    frame.loc[7, column] = value
    with pytest.raises(DataError, match=said) as refused:
        read_named(_Anything(), frame, SCHEMA, reset=True)
    assert "SECRET" not in str(refused.value)


def test_what_is_missing_counts_as_the_schema_says() -> None:
    document = SCHEMA.model_dump(mode="json")
    document["attributes"][4]["missing"] = "yes"
    frame = ROWS.to_pandas()
    frame.loc[:9, "ill"] = None
    values = read_named(_Anything(), frame, Schema.from_document(document), reset=True)
    assert values is not None
    assert values[:10, 4].tolist() == [1.0] * 10


def test_other_columns_than_fitted_are_refused() -> None:
    estimator = _Anything()
    read_named(estimator, ROWS.to_pandas(), SCHEMA, reset=True)
    document = SCHEMA.model_dump(mode="json")
    document["attributes"] = document["attributes"][1:]
    with pytest.raises(DataError, match="x0"):
        read_named(estimator, ROWS.to_pandas(), Schema.from_document(document), reset=False)
    with pytest.raises(DataError, match="0 rows"):
        read_named(estimator, ROWS.to_pandas().head(0), SCHEMA, reset=True)
