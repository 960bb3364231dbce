"""What a coarser grid costs in accuracy, on real data."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.rivals.component_tables import read_table
from benchmarks.studies import coded_rows
from dppca.common.analysis.spectrum.pca import decompose, pooled_covariance
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import real_l1
from dppca.common.kernel.schema import Column, Numeric, Schema

TITLE = "What a coarser grid costs"
ABOUT = """
`resolution_bits` is the grid numerics are rounded to. *Error* is the relative Frobenius error of
the covariance against that of unrounded rows; *lost* is the share of the variance of the ten best
components that the ten components found on the grid do not have. Beside them, the error that
Laplace noise of epsilon = 1 puts on the same covariance (from its law, by the standard deviation of
every entry). Binaries and indicators are exact on any grid. What a coarser grid gains in time is
in the tables above.
"""

BITS = (6, 8, 10, 14)
_COMPONENTS = 10

Matrix = NDArray[np.float64]


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Errors by data set and resolution."""
    rows: list[tuple[Cell, ...]] = []
    for name in ("nltcs",) if plan.quick else ("nltcs", "adult", "musk"):
        plan.say(name)
        table = read_table(name)
        attributes, columns = table.attributes, table.columns
        unrounded = _unrounded(attributes, columns)
        exact = pooled_covariance(unrounded.mean(axis=0), unrounded.T @ unrounded / len(unrounded))
        best = _captured(exact, exact)
        for bits in BITS:
            schema = _schema(attributes, bits)
            coded = _on_grid(schema, columns)
            error = float(np.linalg.norm(coded - exact) / np.linalg.norm(exact))
            lost = max(0.0, 1 - _captured(exact, coded) / best)
            noise = _noise_error(schema, len(columns[0]), float(np.linalg.norm(exact)))
            cells = len(columns[0]), schema.layout.n_columns, bits
            rows.append((name, *cells, error, lost, noise))
    columns_of_table = ("data", "n", "columns", "g", "error", "lost", "error by noise")
    return [FigureTable("By data set and resolution.", columns_of_table, tuple(rows))]


def _schema(attributes: list[dict[str, Any]], bits: int) -> Schema:
    return Schema.from_document({"resolution_bits": bits, "attributes": attributes})


def _unrounded(attributes: list[dict[str, Any]], columns: list[Column]) -> Matrix:
    schema = _schema(attributes, 14)
    rows = coded_rows(schema, columns)
    for attribute, (start, _), column in zip(
        schema.attributes, schema.layout.groups, columns, strict=True
    ):
        if isinstance(attribute, Numeric):
            lower, upper = attribute.bounds
            inside = np.clip(np.asarray(column, np.float64), lower, upper)
            inside = np.where(np.isfinite(column), inside, attribute.middle)
            rows[:, start] = (inside - attribute.middle) / (upper - lower)
    return rows


def _on_grid(schema: Schema, columns: list[Column]) -> Matrix:
    moments = accumulate_moments(schema, columns)
    return pooled_covariance(*unpack(moments.packed, moments.n_rows, schema.layout))


def _captured(exact: Matrix, found: Matrix) -> float:
    vectors = decompose(found).vectors[:_COMPONENTS]
    return float(np.trace(vectors @ exact @ vectors.T))


def _noise_error(schema: Schema, n_rows: int, size: float) -> float:
    """Root mean square of the noise on second moments at epsilon = 1, relative to the size."""
    i, j = schema.layout.product_index
    entries = int((i == j).sum() + 2 * (i != j).sum())
    deviation = math.sqrt(2) * float(real_l1(sensitivity_shape(schema))) / n_rows
    return deviation * math.sqrt(entries) / size
