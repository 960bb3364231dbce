"""A Parquet file whose footer contradicts itself ends the process of whoever verifies it.

pyarrow makes a column's description of each in the footer, and where its parts do not fit each
other, that is an error in C++ which nothing catches.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.patience import WAIT_S

OPEN = """
import struct, sys
from pathlib import Path
from dppca.common.attestation.tables import _READING, _opened
from dppca.common.errors import ArtefactError
sound, by = Path(sys.argv[1]), int(sys.argv[2])
content, changed = sound.read_bytes(), sound.with_name("changed.parquet")
end = len(content) - 8
(length,) = struct.unpack_from("<I", content, end)
refused = 0
for place in range(end - length, end):
    bad = bytearray(content)
    bad[place] ^= by
    changed.write_bytes(bad)
    try:
        for _ in _opened(changed)[2]:
            pass
    except (*_READING, ArtefactError):
        refused += 1
print(length, refused)
"""


@pytest.mark.parametrize("by", [1, 4, 64, 255])
def test_a_changed_footer_is_refused_or_read_and_never_ends_the_process(
    tmp_path: Path, by: int
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x0": np.arange(60.0), "x1": np.arange(60.0)}), path)
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(path), str(by)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr[-300:]
    length, refused = map(int, done.stdout.split())
    assert length / 10 < refused <= length
