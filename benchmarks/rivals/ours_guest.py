"""Synthetic rows of this software in a process of their own, as `synthesis_guest` makes others'.

``python ours_guest.py STUDY.json TABLE.npz ROWS SEED RELATION NAME`` answers ``fit``, ``rows``,
``peak`` and ``save FILE.npy`` as the other guests do. A fit is all of a study but its transport:
every owner's coding, exact sums and exact noise, pooling, components, and the field. The noise is
repeated by its seed, so nothing here is private.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np


def main() -> None:
    """Serve fits and rows until the input ends."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from benchmarks.performance.machine import peak_mib

    study, table, n_rows, seed, relation, name = sys.argv[1:]
    given = (Path(study), Path(table), int(n_rows), int(seed))
    calls = _calls(*given, relation) if name.startswith("DPPCA") else _network_calls(*given, name)
    rows: Any = None
    for line in sys.stdin:
        word, _, target = line.strip().partition(" ")
        begin = process_time()
        if word == "peak":
            print(peak_mib(), flush=True)
            continue
        if word == "save":
            np.save(target, np.column_stack(rows))
        else:
            rows = calls[word]()
        print(process_time() - begin, flush=True)


def _network_calls(path: Path, table: Path, n_rows: int, seed: int, name: str) -> dict[str, Any]:
    """Rows of the estimators of networks, whose noise is as exact as ours."""
    from dppca.common.estimators.networks.dp_subn3 import DPSUBN3
    from dppca.common.estimators.networks.privbayes import PrivBayes
    from dppca.common.privacy.noise.entropy import SeededEntropy
    from dppca.common.schema import Numeric
    from dppca.common.study_document import study_from_canonical

    study = study_from_canonical(path.read_bytes())
    settings: dict[str, Any] = {
        "epsilon": study.privacy.epsilon,
        "schema": study.table,
        "max_rows_per_person": 1,
        "entropy": lambda: SeededEntropy(seed),
        "random_state": seed,
    }
    with np.load(table) as given:
        values = given["values"]
    for column, attribute in zip(values.T, study.table.attributes, strict=True):
        if isinstance(attribute, Numeric):  # brought to the bounds, as coding does for a study
            np.clip(column, attribute.lower, attribute.upper, out=column)
    parts = np.array_split(values, len(study.owners))
    made: list[Any] = []

    def fit() -> None:
        if name.startswith("PrivBayes"):
            made[:] = [PrivBayes(**settings).fit(parts[0])]
        else:
            made[:] = [DPSUBN3(**settings).fit(parts)]

    return {"fit": fit, "rows": lambda: list(made[0].sample(n_rows).T)}


def _calls(path: Path, table: Path, n_rows: int, seed: int, relation: str) -> dict[str, Any]:
    from benchmarks.rivals.neighbours import Neighbours
    from benchmarks.synthesis.trials import row_columns
    from dppca.common.messages import Form
    from dppca.common.numerics.moments.accumulation import accumulate_moments
    from dppca.common.privacy.mechanisms import add_noise
    from dppca.common.privacy.noise.entropy import SeededEntropy
    from dppca.common.privacy.release import calibrate
    from dppca.common.schema import Numeric
    from dppca.common.study_document import study_from_canonical
    from dppca.curator.study.aggregate import aggregate
    from dppca.curator.study.study_record import Contribution, LedgerHead
    from dppca.owner.synthesis.rows import synthesize

    study = study_from_canonical(path.read_bytes())
    with np.load(table) as given:
        values = given["values"]
    columns = [
        column if isinstance(attribute, Numeric) else column.astype(np.int32)
        for attribute, column in zip(study.table.attributes, values.T.copy(), strict=True)
    ]
    made: list[Any] = []

    def fit() -> None:
        calibration, entropy = calibrate(study), SeededEntropy(seed)
        contributions, vectors = [], []
        for owner, part in zip(
            study.owners, np.array_split(np.arange(len(values)), len(study.owners)), strict=True
        ):
            moments = accumulate_moments(study.table, [column[part] for column in columns])
            # The count is one entry more where it is not public: neighbours.py, equation (1).
            unit = 4**study.table.resolution_bits
            packed = np.append(moments.packed, moments.n_rows * unit)
            noised = add_noise(packed, calibration, entropy=entropy)
            n_counted = moments.n_rows
            if relation == Neighbours.ADDED:
                n_counted = max(1, round(int(noised[-1]) / unit))
            vectors.append(noised[:-1])
            contributions.append(
                Contribution(owner, b"", n_counted, 0, b"", LedgerHead(0, b""), b"", 0)
            )
        result = aggregate(study, calibration, contributions, vectors)
        rng = np.random.default_rng(seed)
        made[:] = [synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)]

    return {"fit": fit, "rows": lambda: row_columns(made[0], study.table)}


if __name__ == "__main__":
    main()
