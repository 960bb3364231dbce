"""An attack on the quality summary: rows on the edge of its machine, in a file cut in two ways.

What noise must hide is found, not computed: the largest change of the exact counts when one row is
replaced and the file's blocks end elsewhere, as they do where a row is longer. Synthetic rows that
mirror each other make a machine that weighs two columns as w and -w. Rows with one number in both
have a score of nothing but rounding, so arithmetic that rounds by a row's place turns many at once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.study import Study
from dppca.common.study_document import study_from_mapping
from dppca.owner.records import open_table
from dppca.owner.release.summary import exact_counts, request_summary
from dppca.owner.selftest.findings import Finding
from dppca.owner.synthesis.report.comparison import code_table
from dppca.owner.synthesis.tables import open_writer

_PAIRS = 4
_NAMES = [f"{side}{i}" for side in "ab" for i in range(_PAIRS)]
_N_ROWS = 3000
_HEIGHTS = (_N_ROWS, 13, 8, 1)  # of a file's blocks


def attack_summary(folder: Path) -> Finding:
    """Count four files that differ in one row and in their blocks; they are made in ``folder``."""
    study, rng = _study(), np.random.default_rng(1)
    request = request_summary(
        study, data_set="d", synthetic_sha256="0" * 64, targets=("t",), epsilon="1", delta=None
    )
    half = rng.integers(-512, 513, size=(200, _PAIRS)) / 1024
    labels = (half @ rng.normal(size=_PAIRS) > 0).astype(np.int64)
    mirrored = np.hstack([half, -half])
    public = folder / "synthetic.arrow"
    _write(public, np.vstack([mirrored, -mirrored]), np.concatenate([labels, 1 - labels]), 400)
    synthetic = code_table(open_table(public, study.table), rng)
    half = rng.integers(-512, 513, size=(_N_ROWS, _PAIRS)) / 1024
    rows, labels = np.hstack([half, half]), rng.integers(0, 2, size=_N_ROWS)
    counts = []
    for height in _HEIGHTS:
        path = folder / f"rows-{height}.arrow"
        rows[0], labels[0] = rng.integers(-512, 513) / 1024, rng.integers(0, 2)
        _write(path, rows, labels, height)
        counts.append(exact_counts(request, open_table(path, study.table), synthetic))
    largest = max(int(np.abs(one - other).sum()) for one in counts for other in counts)
    claimed = request.calibration.sensitivity.l1
    return Finding(
        "quality summary",
        largest <= claimed,
        f"one replaced row among {_N_ROWS} on the machine's edge moves the counts by {largest}; "
        f"the noise is for {claimed}",
        0.0,
        {"change": largest, "claimed_change": claimed},
    )


def _study() -> Study:
    numeric = {"type": "numeric", "lower": -0.5, "upper": 0.5}
    target = {"name": "t", "type": "binary", "values": ["0", "1"]}
    return study_from_mapping(
        {
            "name": "edge",
            "owners": ["owner-1"],
            "privacy": {"mechanism": "laplace", "epsilon": "1"},
            "components": {"count": 1},
            "schema": {
                "max_rows_per_person": 1,
                "attributes": [*({"name": name, **numeric} for name in _NAMES), target],
            },
        }
    )


def _write(path: Path, rows: NDArray[np.float64], labels: NDArray[np.int64], height: int) -> None:
    columns = dict(zip(_NAMES, rows.T, strict=True))
    table = pa.table({**columns, "t": labels.astype(str)})
    with open_writer(path, table.schema, {}) as writer:
        for batch in table.to_batches(max_chunksize=height):
            writer.write(batch)
