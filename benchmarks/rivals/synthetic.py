"""Synthetic rows side by side: who takes part, and one contestant's run.

Ours is what a study releases of the data set in the last of the forms without bins and trees that
`benchmarks.synthesis` tries (Adult with histograms and targets, the demo as it is shipped, NLTCS
plain), each owner with noise of its own, for neighbours of either kind
(`benchmarks.rivals.neighbours`). The others are given the cells of the tables that all are judged
by, so that none loses by a coarser cut than its judge's; their values are spread evenly over a
cell. Every run is a process of its own.

Rows are judged as in `benchmarks.synthesis.judging`; beside its linear machine stands libsvm's with
an RBF kernel (C = 1, gamma "scale", standardised columns) on the first 5,000 rows, for its time
grows with their square.
"""

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environments import Ask, find_environment, open_guest
from benchmarks.experiment import Found
from benchmarks.performance.registry import GUEST
from benchmarks.rivals.cells import RivalRun, cross
from benchmarks.rivals.neighbours import Neighbours, make_study
from benchmarks.studies import value_columns
from benchmarks.synthesis.forms import BINS, TREES, find_form, list_forms
from benchmarks.synthesis.judging import (
    CELLS,
    attribute_cells,
    find_reference,
    judge_machines,
    judge_rows,
)
from benchmarks.synthesis.subjects import Subject, load_subject
from benchmarks.synthesis.trials import REAL
from dppca.common.kernel.schema import Column, Numeric

SDV, PGM = "SDV", "Private-PGM"
_SDV_NEEDS = (
    *("copulas==0.14.1", "rdt==2.0.0", "sdmetrics==0.32.0", "pandas==2.3.3", "numpy==2.4.6"),
    *("boto3==1.44.5", "cloudpickle==3.1.2", "graphviz==0.21", "platformdirs==4.14.7"),
    *("plotly==7.1.0", "tqdm==4.70.1", "Faker==40.54.0", "PyYAML==6.0.3"),
)
ENVIRONMENTS = {
    SDV: ("sdv-2.0.0", (_SDV_NEEDS, ("--no-deps", "sdv==2.0.0"))),
    PGM: ("dpmm-0.1.9", (("dpmm==0.1.9",),)),
}
SUBJECTS = ("nltcs", "demo", "adult")
BY = ("subject", "contestant", "owners", "neighbours", "epsilon")
OURS, OURS_PURE = "DPPCA", "DPPCA, δ = 0"
PRIVBAYES, SUBN3 = "PrivBayes, δ = 0", "DP-SUBN3, δ = 0"
AIM = "AIM, 4 MB (dpmm)"
HERE = (OURS, OURS_PURE, PRIVBAYES, SUBN3)
"""Made by this software; the last two are its estimators of other papers' methods."""
OWNERS = (1, 3, 10)
EPSILONS = ("0.1", "0.2", "0.5", "1")
DELTA = "1e-9"
RBF_ROWS = 5000
_OURS_GUEST = Path(__file__).with_name("ours_guest.py")


@dataclass(frozen=True, slots=True)
class Contestant:
    """One line of a table.

    Attributes
    ----------
    neighbours
        Empty where nothing is private.
    environment
        One of `ENVIRONMENTS`; empty for ours and for real rows.
    owners
        Who hold the rows.
    patience_s
        For a fit, and for its rows.
    """

    name: str
    neighbours: str
    environment: str = ""
    owners: int = 1
    patience_s: float = 900.0


CONTESTANTS = (
    Contestant(REAL, ""),
    *(Contestant(OURS, relation, owners=owners) for relation in Neighbours for owners in OWNERS),
    Contestant("SDV GaussianCopula", "", SDV),
    *(Contestant(OURS_PURE, Neighbours.REPLACED, owners=owners) for owners in OWNERS),
    Contestant(PRIVBAYES, Neighbours.REPLACED),
    *(Contestant(SUBN3, Neighbours.REPLACED, owners=owners) for owners in OWNERS[1:]),
    Contestant("PrivBayes (dpmm)", Neighbours.ADDED, PGM),
    Contestant("MST (dpmm)", Neighbours.ADDED, PGM, patience_s=1800.0),
    Contestant(AIM, Neighbours.ADDED, PGM, patience_s=7200.0),
)
"""Those that take the least time first."""


def list_cells(subject: str, *, splits: int, only: str) -> Iterator[RivalRun]:
    """Cells of a data set, of contestants whose name has ``only``.

    Every epsilon of a split comes before the next split.
    """
    for who in CONTESTANTS:
        varied: dict[str, Iterable[Any]] = {
            "subject": [subject],
            "contestant": [who.name],
            "owners": [who.owners],
            "neighbours": [str(who.neighbours)],
            "split": range(splits),
            "epsilon": EPSILONS if who.neighbours else ("",),
        }
        yield from cross(partial(_run_known, who), varied, only=only)


def _run_known(who: Contestant, *, subject: str, epsilon: str, split: int, **_: Any) -> Found:
    return run_contestant(subject, who, epsilon, split)


def run_contestant(name: str, who: Contestant, epsilon: str, split: int) -> Found:
    """Rows of one contestant, what they took and what they are worth.

    Raises
    ------
    GuestError
        There are none, and why.
    """
    subject, columns = load_subject(name), find_reference(name, split).training
    if who.name == REAL:
        return judge_table(name, columns, split)
    n_rows = len(columns[0])
    with tempfile.TemporaryDirectory(prefix="dppca-rivals-") as scratch:
        folder = Path(scratch)
        codes, sizes = attribute_cells(subject.schema, columns, subject.edges)
        np.savez(
            folder / "table.npz",
            values=np.column_stack(columns),
            codes=np.column_stack(codes),
            sizes=sizes,
            numeric=[isinstance(each, Numeric) for each in subject.schema.attributes],
        )
        open_one = _open_ours if who.name in HERE else _open_other
        with open_one(name, who, epsilon, split, n_rows, folder) as ask:
            seconds = sum(ask(word, who.patience_s) for word in ("fit", "rows"))
            peak = ask("peak")
            ask(f"save {folder / 'rows.npy'}")
        made = _columns(name, who, np.load(folder / "rows.npy"), split)
    return {**judge_table(name, made, split), "seconds": seconds, "mib": peak}


def _open_ours(
    name: str, who: Contestant, epsilon: str, split: int, n_rows: int, folder: Path
) -> AbstractContextManager[Ask]:
    form = [each for each in list_forms(name) if each not in (TREES, *BINS)][-1]
    study = make_study(
        find_form(load_subject(name), form),
        epsilon=epsilon,
        delta=DELTA if who.name == OURS else "",
        owners=who.owners,
        neighbours=Neighbours(who.neighbours),
    )
    document = folder / "study.json"
    document.write_bytes(study.canonical_bytes())
    table = folder / "table.npz"
    given = (str(document), str(table), str(n_rows), str(split), who.name)
    return open_guest(Path(sys.executable), _OURS_GUEST, *given, threads=1)


def _open_other(
    name: str,  # noqa: ARG001 - as `_open_ours`
    who: Contestant,
    epsilon: str,
    split: int,
    n_rows: int,
    folder: Path,
) -> AbstractContextManager[Ask]:
    environment, installs = ENVIRONMENTS[who.environment]
    python = find_environment(environment, *installs)
    given = (who.name, str(folder / "table.npz"), str(n_rows), epsilon or "1", DELTA, str(split))
    return open_guest(python, GUEST, *given, threads=1)


def _columns(name: str, who: Contestant, rows: NDArray[np.float64], split: int) -> list[Column]:
    """What a guest saved, as columns of values."""
    subject = load_subject(name)
    if who.environment == PGM:
        return draw_values(subject, rows, np.random.default_rng(split))
    return [
        column.clip(*attribute.bounds) if isinstance(attribute, Numeric) else column
        for attribute, column in zip(
            subject.schema.attributes, value_columns(subject.schema, rows), strict=True
        )
    ]


def judge_table(name: str, columns: Sequence[Column], split: int) -> Found:
    """Judge columns of values, as the data set has them.

    ``linear``, ``rbf`` and ``trees`` are accuracies by target; the others are distances of tables,
    as `judge_rows` has them.
    """
    judged = judge_rows(name, columns, split)
    return {
        "linear": judged.pop("accuracy"),
        "rbf": judge_machines(name, columns, split, _rbf_accuracy),
        **judged,
    }


def draw_values(
    subject: Subject, codes: NDArray[np.float64], rng: np.random.Generator
) -> list[Column]:
    """Columns of values from cells, shape (n_rows, attributes); evenly within a numeric's."""
    columns: list[Column] = []
    for attribute, cell in zip(subject.schema.attributes, codes.T.astype(np.int64), strict=True):
        if not isinstance(attribute, Numeric):
            columns.append(cell.astype(np.int32))
            continue
        edges = _cell_edges(subject, attribute)
        columns.append(edges[cell] + rng.random(len(cell)) * (edges[cell + 1] - edges[cell]))
    return columns


def _cell_edges(subject: Subject, attribute: Numeric) -> NDArray[np.float64]:
    """Edges of a numeric's cells in the tables, both bounds among them, in its own unit."""
    lower, upper = attribute.bounds
    if attribute.name not in subject.edges:
        return np.linspace(lower, upper, CELLS + 1)
    # Public edges may lie outside a study's bounds; nothing is in their cells.
    edges = np.r_[lower, subject.edges[attribute.name], upper].astype(np.float64)
    clipped: NDArray[np.float64] = edges.clip(lower, upper)
    return clipped


def _rbf_accuracy(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    test: NDArray[np.float64],
    truth: NDArray[np.int64],
) -> float:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    features, labels = features[:RBF_ROWS], labels[:RBF_ROWS]
    if len(np.unique(labels)) == 1:
        return float((truth == labels[0]).mean())
    machine = make_pipeline(StandardScaler(), SVC(kernel="rbf", C=1.0, gamma="scale"))
    return float((machine.fit(features, labels).predict(test) == truth).mean())
