"""Components and covariance of one table under each law of the noise, beside other libraries.

Tables of 8 to 104 columns: the first eight of NLTCS and all 16, the first 32 and 64 yes/no columns
of mushrooms, and Adult; ours are of all rows, by attributes or with rows in a ball. Libraries see
`SMALL_ROWS` rows, as on more they do not end (`benchmarks.rivals.pca`), and ours are measured on
these, too. They are asked for all components, so that a covariance can be made of them.

``captured`` is the share of the variance in the first three components. ``spectral`` is the
spectral norm of the covariance's error times the number of rows, which for our releases does not
depend on that number; of a random subspace it is that of knowing nothing.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.environments import find_environment, open_guest
from benchmarks.experiment import Found
from benchmarks.performance.registry import GUEST
from benchmarks.rivals.cells import RivalRun, cross
from benchmarks.rivals.component_tables import (
    BALL,
    BOX,
    SMALL_ROWS,
    ComponentTable,
    read_table,
    release,
    table_study,
)
from benchmarks.rivals.pca import ENVIRONMENTS, EXACT, GUESTS, PATIENCE_S, RANDOM
from benchmarks.rivals.synthetic import DELTA
from dppca.common.analysis.estimates.release import released_moments
from dppca.common.kernel.attestation.results import Published

BY = ("subject", "contestant", "epsilon")
EPSILONS = ("0.1", "0.2", "1")
COMPONENTS = 3
TABLES = {"8": "nltcs", "16": "nltcs", "32": "mushrooms", "64": "mushrooms", "104": "adult"}
"""Names of tables by their columns."""
WITH_GUESTS = ("8", "16")
SMALL = "{} columns, {:,} rows"
OURS = {
    f"DPPCA, {form}, {law}": (form, law)
    for form in (BOX, BALL)
    for law in ("laplace", "matrix-laplace", "gaussian")
}


def subjects() -> dict[str, tuple[str, bool]]:
    """Columns of each table by its name here, and whether it is small."""
    whole = {f"{columns} columns": (columns, False) for columns in TABLES}
    return whole | {SMALL.format(each, SMALL_ROWS): (each, True) for each in WITH_GUESTS}


def list_cells(*, splits: int, only: str) -> Iterator[RivalRun]:
    """All cells of the table; ``splits`` is the number of draws."""
    for subject, (_, small) in subjects().items():
        noised = (*OURS, *(GUESTS if small else ()))
        for contestants, epsilons in (((EXACT, RANDOM), ("",)), (noised, EPSILONS)):
            varied: dict[str, Sequence[object]] = {
                "subject": [subject],
                "contestant": contestants,
                "epsilon": epsilons,
                "split": range(splits),
            }
            yield from cross(measured, varied, only=only)


def measured(subject: str, contestant: str, epsilon: str, split: int) -> Found:
    """Return both figures of one release; raise `GuestError` where there is none."""
    table = columns_of(*subjects()[subject])
    if contestant == EXACT:
        covariance = table.covariance
    elif contestant == RANDOM:  # of which nothing is known
        drawn = np.random.default_rng(split).standard_normal((COMPONENTS, table.rows.shape[1]))
        covariance = drawn.T @ drawn
    elif contestant in OURS:
        form, law = OURS[contestant]
        covariance = _our_covariance(table, form, law, epsilon, split)
    else:
        covariance = _guest_covariance(table, contestant, epsilon, split)
    vectors = np.linalg.eigh(covariance)[1][:, ::-1].T
    known = covariance * (contestant != RANDOM)
    error = np.abs(np.linalg.eigvalsh(known - table.covariance)).max()
    return {
        "captured": table.captured(vectors[:COMPONENTS]),
        "spectral": float(error) * len(table.rows),
    }


@lru_cache(2)
def columns_of(columns: str, small: bool) -> ComponentTable:
    """Return the first columns of a table, all or some of its rows."""
    whole, count = read_table(TABLES[columns]), int(columns)
    chosen = np.random.default_rng(0).permutation(len(whole.rows))
    chosen = chosen[: SMALL_ROWS if small else None]
    rows = whole.rows[chosen][:, :count]
    norm = whole.norm if count == whole.rows.shape[1] else (_most(whole, count)) ** 0.5
    return replace(
        whole,
        attributes=whole.attributes[:count],
        columns=[column[chosen] for column in whole.columns[:count]],
        rows=rows,
        norm=norm,
        covariance=np.cov(rows, rowvar=False, bias=True),
        bounds=(whole.bounds[0][:count], whole.bounds[1][:count]),
    )


def _most(table: ComponentTable, count: int) -> float:
    """Bound on the squared norm of a row's first columns, by their public bounds, and its own."""
    lower, upper = (each[:count] for each in table.bounds)
    return min(float(np.square(np.maximum(-lower, upper)).sum()), table.norm**2)


def _our_covariance(
    table: ComponentTable, form: str, law: str, epsilon: str, split: int
) -> NDArray[np.float64]:
    delta = DELTA if law == "gaussian" else None
    study = table_study(table, form, owners=1, epsilon=epsilon, delta=delta, law=law)
    released = release(table, study, form, seed=split)
    matrix = released_moments(Published(study, released.pooled())).matrix
    assert matrix is not None
    covariance = matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:])
    return np.asarray(covariance * (table.norm**2 if form == BALL else 1.0))


def _guest_covariance(
    table: ComponentTable, who: str, epsilon: str, split: int
) -> NDArray[np.float64]:
    python = find_environment(*ENVIRONMENTS[who.split(",")[0]])
    lower, upper = table.bounds
    with tempfile.TemporaryDirectory(prefix="dppca-rivals-") as scratch:
        given, saved = Path(scratch) / "table.npz", Path(scratch) / "covariance.npy"
        np.savez(given, rows=table.rows, norm=table.norm, lower=lower, upper=upper)
        count = str(table.rows.shape[1])
        arguments = (f"{who}, covariance", str(given), count, epsilon, "0", str(split))
        with open_guest(python, GUEST, *arguments, threads=1) as ask:
            ask("fit", PATIENCE_S)
            ask(f"save {saved}")
        found: NDArray[np.float64] = np.load(saved)
    return found
