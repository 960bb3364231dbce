"""Synthetic rows of this software in a process of their own, as `performance.guest` makes others'.

``python ours_guest.py STUDY.json TABLE.npz ROWS SEED NAME`` answers as the other guests
do. A fit is all of a study but its transport: every owner's coding, exact sums and exact noise,
pooling, components, and the field. The noise is repeated by its seed, so nothing here is private.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import serve_rows
from benchmarks.releases import pool
from benchmarks.studies import value_columns
from benchmarks.synthesis.trials import row_columns
from dppca.common.analysis.rows.synthesis import SyntheticRows, synthesize
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.study import Study, study_from_canonical


def main() -> None:
    """Serve fits and rows until the input ends."""
    path, table, n_rows, seed, name = sys.argv[1:]
    study = study_from_canonical(Path(path).read_bytes())
    with np.load(table) as given:
        values = given["values"]
    made: list[Any] = []

    def fit() -> None:
        if name.startswith("DPPCA"):
            made[:] = [release(study, values, int(n_rows), int(seed))]
        else:
            made[:] = [fit_network(study, values, name, int(seed))]

    def rows() -> Any:
        if name.startswith("DPPCA"):
            return np.column_stack(row_columns(made[0], study.table))
        return made[0].sample(int(n_rows))

    serve_rows({"fit": fit, "rows": rows})


def fit_network(study: Study, values: Any, name: str, seed: int) -> Any:
    """An estimator of a network, whose noise is as exact as ours."""
    from dppca.common.papers.networks.dp_subn3 import DPSUBN3
    from dppca.common.papers.networks.privbayes import PrivBayes

    settings: dict[str, Any] = {
        "epsilon": study.privacy.epsilon,
        "schema": study.table,
        "max_rows_per_person": 1,
        "entropy": lambda: SeededEntropy(seed),
        "random_state": seed,
    }
    rows = values.copy()
    for column, attribute in zip(rows.T, study.table.attributes, strict=True):
        if isinstance(attribute, Numeric):  # brought to the bounds, as coding does for a study
            np.clip(column, attribute.lower, attribute.upper, out=column)
    parts = np.array_split(rows, len(study.owners))
    if name.startswith("PrivBayes"):
        return PrivBayes(**settings).fit(parts[0])
    return DPSUBN3(**settings).fit(parts)


def release(study: Study, values: Any, n_rows: int, seed: int) -> SyntheticRows:
    """Synthetic rows of a study of the values."""
    result = pool_rows(study, values, seed)
    rng = np.random.default_rng(seed)
    return synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)


def pool_rows(study: Study, values: Any, seed: int) -> Result:
    """The result of a study of the values."""
    calibration, entropy = calibrate(study), SeededEntropy(seed)
    counts, vectors = [], []
    for part in np.array_split(values, len(study.owners)):
        moments = accumulate_moments(study.table, value_columns(study.table, part))
        counts.append(moments.n_rows)  # not used where the number is secret
        vectors.append(add_noise(moments.packed, calibration, entropy=entropy))
    return pool(study, calibration, counts, vectors)


if __name__ == "__main__":
    main()
