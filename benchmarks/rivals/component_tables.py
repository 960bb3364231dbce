"""Tables that components are compared on, and our releases of them.

Every table is numbers and labels with public bounds, coded as a study codes them; what is captured
is measured there, on the exact covariance of all rows. A method that needs rows in a ball gets the
coded rows and a public bound on their norm: by Q scalars within [-1/2, 1/2] and c indicators,
``(Q/4 + c)^(1/2)``. Of mushrooms, whose file has 112 indicators of 21 attributes, these are taken
from 0 to 1 and the bound is ``21^(1/2)``. Columns of musk are brought into [-1, 1] by their own
range, as in `benchmarks.papers`: what is said of privacy there holds only if those are public.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.data import load_table
from benchmarks.papers.rows import PaperSource
from benchmarks.releases import (
    BITS,
    numeric_attributes,
    plain_attributes,
    pool,
    state_privacy,
    state_study,
)
from benchmarks.studies import coded_rows
from benchmarks.synthesis.subjects import load_subject
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, noise_moments
from dppca.common.kernel.schema import Categorical, Column, Schema
from dppca.common.kernel.study import Study
from dppca.curator.planning.covariance_noise import JOINT_BITS, JOINT_SUM_WEIGHT

BOX, BALL = "by attributes", "rows in a ball"
MOST_COMPONENTS = 10
SMALL_ROWS = 1000


@dataclass(frozen=True, slots=True)
class ComponentTable:
    """One table.

    Attributes
    ----------
    attributes, columns
        As a study file's schema has them, and one array per attribute.
    rows
        Float64, shape (n, d): coded rows in real units, moved to where their norm is bounded best.
    norm
        Bound on the norm of a row.
    covariance
        Exact, shape (d, d).
    bounds
        Public bounds of the columns of ``rows``, shape (d,) each.
    """

    name: str
    attributes: list[dict[str, Any]]
    columns: list[Column]
    rows: NDArray[np.float64]
    norm: float
    covariance: NDArray[np.float64]
    bounds: tuple[NDArray[np.float64], NDArray[np.float64]]

    def captured(self, components: NDArray[np.float64]) -> float:
        """Share of the variance in the span of orthonormal rows, shape (k, d)."""
        basis = np.linalg.qr(components.T)[0]
        held = np.trace(basis.T @ self.covariance @ basis)
        return float(held / np.trace(self.covariance))


@lru_cache(2)
def read_table(name: str) -> ComponentTable:
    """The table of that name, one of `TABLES` or `SMALL`."""
    if name not in SMALL:
        return TABLES[name](name)
    whole = read_table(SMALL[name])
    chosen = np.random.default_rng(0).permutation(len(whole.rows))[:SMALL_ROWS]
    rows = whole.rows[chosen]
    columns = [column[chosen] for column in whole.columns]
    return replace(whole, name=name, columns=columns, rows=rows, covariance=_covariance(rows))


def table_study(
    table: ComponentTable,
    form: str,
    *,
    owners: int,
    epsilon: str,
    delta: str | None,
    law: str | None = None,
) -> Study:
    """A study of the table: its attributes as they are, or its rows in a ball.

    ``law`` gives it what the product proposes for that law; without it, all is as it is by default.
    """
    schema: dict[str, Any] = {"attributes": table.attributes}
    if form == BALL:  # a schema's ball has radius 1
        scale = {"type": "numeric", "centre": 0, "scale": table.norm}
        names = [{"name": f"x{index}", **scale} for index in range(table.rows.shape[1])]
        halved = {"halved_products": True} if law == "gaussian" else {}
        schema = {"row_norm": halved, "attributes": names}
    privacy, components = state_privacy(epsilon, delta), {"count": MOST_COMPONENTS}
    if law is not None:
        privacy["mechanism"] = law
        components["count"] = min(MOST_COMPONENTS, table.rows.shape[1] - 1)
    if law == "matrix-laplace":
        schema |= {"sum_weight": JOINT_SUM_WEIGHT, "resolution_bits": JOINT_BITS}
    return state_study("rivals", schema, privacy, owners=owners, components=components)


@dataclass(frozen=True, slots=True)
class Released:
    """Owners' noised sums, packed, and the rows behind each."""

    study: Study
    calibration: Calibration
    vectors: list[NDArray[np.int64]]
    n_rows: list[int]

    def pooled(self) -> Result:
        """What our curator makes of them."""
        return pool(self.study, self.calibration, self.n_rows, self.vectors)


def release(table: ComponentTable, study: Study, form: str, *, seed: int) -> Released:
    """Every owner's release with exact noise, which the seed repeats.

    Rows are dealt in the order of a permutation by the seed.
    """
    given: Sequence[Column] = table.columns if form == BOX else list(table.rows.T)
    calibration, entropy = calibrate(study), SeededEntropy(seed)
    vectors, n_rows = [], []
    for part in deal(len(table.rows), len(study.owners), seed):
        moments = accumulate_moments(study.table, [column[part] for column in given])
        vectors.append(noise_moments(study, calibration, moments, entropy=entropy))
        n_rows.append(moments.n_rows)
    return Released(study, calibration, vectors, n_rows)


def deal(n_rows: int, owners: int, seed: int) -> list[NDArray[np.int64]]:
    """Rows of each owner."""
    return np.array_split(np.random.default_rng(seed).permutation(n_rows), owners)


def _subject_table(name: str) -> ComponentTable:
    subject = load_subject(name)
    schema = subject.schema
    norm = schema.largest_norm(without="")
    return _table(name, plain_attributes(schema), list(subject.columns), norm)


def _musk(name: str) -> ComponentTable:
    rows = load_table(PaperSource(name)).rows
    attributes = numeric_attributes(rows.shape[1], -1, 1)
    return _table(name, attributes, list(rows.T.copy()), (rows.shape[1] / 4) ** 0.5)


def _mushrooms(name: str) -> ComponentTable:
    rows = load_table(PaperSource(name)).rows
    attributes = [
        {"name": f"x{index}", "type": "binary", "values": [0, 1]} for index in range(rows.shape[1])
    ]
    columns: list[Column] = list(rows.T.astype(np.int32))
    return _table(name, attributes, columns, 21**0.5, moved=0.5)


def _table(
    name: str,
    attributes: list[dict[str, Any]],
    columns: list[Column],
    norm: float,
    *,
    moved: float = 0.0,
) -> ComponentTable:
    schema = Schema.from_document({"resolution_bits": BITS, "attributes": attributes})
    rows = coded_rows(schema, columns) + moved
    indicators = [isinstance(schema.attributes[i], Categorical) for i in schema.layout.attribute_of]
    lower = np.where(indicators, 0.0, moved - 0.5)
    bounds = (lower, lower + 1.0)
    return ComponentTable(name, attributes, columns, rows, norm, _covariance(rows), bounds)


def _covariance(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    covariance: NDArray[np.float64] = np.cov(rows, rowvar=False, bias=True)
    return covariance


TABLES: dict[str, Callable[[str], ComponentTable]] = {
    "nltcs": _subject_table,
    "mushrooms": _mushrooms,
    "adult": _subject_table,
    "musk": _musk,
}
SMALL = {f"{name}, {SMALL_ROWS:,} rows": name for name in ("nltcs", "mushrooms")}
"""Tables on which samplers that slow down with the rows come to an end."""
