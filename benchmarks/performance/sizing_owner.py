"""One owner's pass in a process of its own: ``sizing_owner ROWS COLUMNS`` prints JSON."""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from benchmarks.performance.federation import make_study, peak_bytes
from dppca.common.numerics.moments.moments import compute_moments, empty_moments
from dppca.common.privacy.mechanisms import add_noise
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.schema import encode

_VALUES = 1 << 21  # coded at once


def main(n_rows: int, n_columns: int) -> None:
    """Code, multiply, add noise; the rows are made batch by batch and not counted."""
    study = make_study("owner", owners=1, columns=n_columns, components=2)
    layout, rng = study.table.layout, np.random.default_rng(0)
    batch = max(1, _VALUES // n_columns)
    moments, seconds = empty_moments(layout), 0.0
    for start in range(0, n_rows, batch):
        rows = rng.uniform(-1, 1, (n_columns, min(batch, n_rows - start)))
        begin = time.perf_counter()
        moments = moments.merge(compute_moments(encode(study.table, list(rows)), layout))
        seconds += time.perf_counter() - begin
    begin = time.perf_counter()
    add_noise(moments.packed, calibrate(study), entropy=OperatingSystemEntropy())
    seconds += time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
