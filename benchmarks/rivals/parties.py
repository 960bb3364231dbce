"""Components of rows that several parties hold: ours, DPdisPCA, local-then-merged subspaces."""

from collections.abc import Iterator

import numpy as np

from benchmarks.experiment import Found
from benchmarks.rivals.cells import RivalRun, cross
from benchmarks.rivals.component_tables import (
    BALL,
    BOX,
    TABLES,
    deal,
    read_table,
    release,
    table_study,
)
from benchmarks.rivals.merging import (
    distributed_components,
    merged_components,
    published_sites,
    sound_sites,
)
from benchmarks.rivals.synthetic import DELTA, EPSILONS

BY = ("subject", "owners", "epsilon", "contestant")
OWNERS = (2, 3, 10)
COMPONENTS = 5
EXACT = "exact, no privacy"
OURS, OURS_BALL = f"DPPCA, {BOX}", f"DPPCA, {BALL}"
SOUND, PUBLISHED, MERGED = "DPdisPCA, sound", "DPdisPCA, published-method", "local, then merged"
CONTESTANTS = (EXACT, OURS, OURS_BALL, SOUND, MERGED, PUBLISHED)


def list_cells(*, splits: int, only: str) -> Iterator[RivalRun]:
    """All cells of the table; ``splits`` is the number of deals and draws."""
    varied = {
        "subject": TABLES,
        "split": range(splits),
        "owners": OWNERS,
        "epsilon": EPSILONS,
        "contestant": CONTESTANTS,
    }
    return cross(captured, varied, only=only)


def captured(subject: str, split: int, owners: int, epsilon: str, contestant: str) -> Found:
    """Captured share of the variance by the first components.

    DPdisPCA's sound form, the merged subspaces and ours of rows in a ball are made of one release,
    noise and all.
    """
    table = read_table(subject)
    if contestant == EXACT:
        vectors = np.linalg.eigh(table.covariance)[1][:, ::-1].T
        return {"captured": table.captured(vectors[:COMPONENTS])}
    if contestant == PUBLISHED:
        parts = [table.rows[part] / table.norm for part in deal(len(table.rows), owners, split)]
        rng = np.random.default_rng([split, owners])
        sites = published_sites(parts, epsilon=float(epsilon), delta=float(DELTA), rng=rng)
    else:
        form = BOX if contestant == OURS else BALL
        study = table_study(table, form, owners=owners, epsilon=epsilon, delta=DELTA)
        released = release(table, study, form, seed=split)
        if contestant in (OURS, OURS_BALL):
            return {"captured": table.captured(released.pooled().vectors[:COMPONENTS])}
        sites = sound_sites(study.table, released.vectors, released.n_rows)
    if contestant == MERGED:
        return {"captured": table.captured(merged_components(sites, k=COMPONENTS))}
    components = distributed_components(
        sites, k=COMPONENTS, intermediate=2 * COMPONENTS, signed=contestant == SOUND
    )
    return {"captured": table.captured(components)}
