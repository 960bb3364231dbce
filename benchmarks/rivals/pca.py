"""Components of one table: ours beside those of diffprivlib, OpenDP, none and chance.

diffprivlib and OpenDP release eigenvectors one after the other by an exponential mechanism (Amin
and others 2019) and divide epsilon over those that are asked for; both take the number of rows for
public, as we do, and have no delta: beside them stands our Laplace noise, and our Gaussian noise on
a line of its own. Both spend half or a third of epsilon on the mean first; diffprivlib can be told
that rows are centred, at the public middle then. Our release is one, whatever is made of it: the
same for any number of components.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.experiment import Found
from benchmarks.performance.environments import open_guest
from benchmarks.rivals.cells import PatienceError, RivalRun, find_environment
from benchmarks.rivals.component_tables import (
    BALL,
    BOX,
    SMALL,
    TABLES,
    ComponentTable,
    read_table,
    release,
    state_study,
)
from benchmarks.rivals.synthetic import DELTA, EPSILONS

BY = ("subject", "components", "epsilon", "contestant")
COMPONENTS = (3, 10)
EXACT, RANDOM = "exact, no privacy", "a random subspace"
PATIENCE_S = 60.0
OURS = {
    f"DPPCA, {form}, δ = {delta or '0'}": (form, delta)
    for form in (BOX, BALL)
    for delta in (None, DELTA)
}
GUESTS = ("diffprivlib, δ = 0", "diffprivlib, centred rows, δ = 0", "OpenDP, δ = 0")
CONTESTANTS = (EXACT, RANDOM, *OURS, *GUESTS)
_GUEST = Path(__file__).with_name("pca_guest.py")
_ENVIRONMENTS = {
    "diffprivlib": ("diffprivlib-0.6.6", ("diffprivlib==0.6.6", "scikit-learn<1.6")),
    "OpenDP": ("opendp-0.16.0", ("opendp[scikit-learn]==0.16.0",)),
}


def list_cells(*, splits: int, only: str) -> Iterator[RivalRun]:
    """All cells of the table; ``splits`` is the number of draws.

    The least epsilon comes first: with it the others' samplers are fastest.
    """
    for subject in (*SMALL, *TABLES):
        for who in CONTESTANTS:
            if only.lower() not in who.lower():
                continue
            for epsilon in EPSILONS if who not in (EXACT, RANDOM) else ("",):
                for split in range(splits):
                    for k in COMPONENTS:
                        facts: dict[str, str | int] = {
                            "subject": subject,
                            "contestant": who,
                            "components": k,
                            "epsilon": epsilon,
                            "split": split,
                        }
                        yield RivalRun(facts, partial(captured, subject, who, k, epsilon, split))


def captured(subject: str, who: str, k: int, epsilon: str, split: int) -> Found:
    """Captured share of the variance by the first k components.

    Raises
    ------
    NotRunError, GuestError
        There are none, and why.
    """
    table = read_table(subject)
    if who == EXACT:
        components = np.linalg.eigh(table.covariance)[1][:, ::-1].T[:k]
    elif who == RANDOM:
        components = np.random.default_rng(split).standard_normal((k, table.rows.shape[1]))
    elif who in OURS:
        form, delta = OURS[who]
        study = state_study(table, form, owners=1, epsilon=epsilon, delta=delta)
        components = release(table, study, form, seed=split).pooled().vectors[:k]
    else:
        components = _guest_components(table, who, k, epsilon, split)
    return {"captured": table.captured(components)}


def _guest_components(
    table: ComponentTable, who: str, k: int, epsilon: str, split: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    folder, wanted = _ENVIRONMENTS[who.split(",")[0]]
    python = find_environment(folder, wanted)
    lower, upper = table.bounds
    with tempfile.TemporaryDirectory(prefix="dppca-rivals-") as scratch:
        given, saved = Path(scratch) / "table.npz", Path(scratch) / "components.npy"
        np.savez(given, rows=table.rows, norm=table.norm, lower=lower, upper=upper)
        arguments = (who, str(given), str(k), epsilon, str(split))
        with open_guest(python, _GUEST, *arguments, threads=1) as ask:
            if ask("fit", PATIENCE_S) is None:
                raise PatienceError(PATIENCE_S)
            ask(f"save {saved}", None)
        components: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.load(saved)
    return components
