"""A Parquet file whose footer contradicts itself ends the process that verifies or reads it.

pyarrow makes a column's description of each in the footer, and where its parts do not fit each
other, that is an error in C++ which nothing catches.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.patience import WAIT_S

CHANGE = """
import struct, sys
from pathlib import Path
{imports}
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
        {read}
    except ({refusals}):
        refused += 1
print(length, refused)
"""
VERIFY = CHANGE.format(
    imports="from dppca.common.kernel.attestation.tables import _READING, _opened\n"
    "from dppca.common.kernel.errors import ArtefactError",
    read="for _ in _opened(changed)[2]: pass",
    refusals="*_READING, ArtefactError",
)
READ = CHANGE.format(
    imports="from dppca.common.kernel.errors import DataError\n"
    "from dppca.common.kernel.schema import Schema\n"
    "from dppca.owner.records.table import open_table\n"
    "schema = Schema.model_validate({'attributes': [\n"
    "    {'name': 'x0', 'type': 'numeric', 'lower': 0, 'upper': 60},\n"
    "    {'name': 'x1', 'type': 'categorical', 'categories': ['a', 'b', 'c']}]})",
    read="for _ in open_table(changed, schema).batches(): pass",
    refusals="DataError",
)


@pytest.mark.parametrize("by", [1, 4, 64, 255])
@pytest.mark.parametrize("script", [VERIFY, READ], ids=["at verify", "at a site"])
def test_a_changed_footer_is_refused_or_read_and_never_ends_the_process(
    tmp_path: Path, script: str, by: int
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x0": np.arange(60.0), "x1": ["a", "b", "c"] * 20}), path)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(by)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr[-300:]
    length, refused = map(int, done.stdout.split())
    assert length / 10 < refused <= length
