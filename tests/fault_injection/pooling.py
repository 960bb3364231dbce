"""The result once more, from what the owners have stored.

``pooling.py STUDY STATE PAYLOADS`` prints the result, without the curator's receipt, that the
vectors in the folder PAYLOADS pool to: one file for each owner that took part in the study of a
curator's state folder. It runs where the curator ran: the last bits of eigenvectors are those
of one version of the numerical libraries, and bit for bit is what is asked.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import numpy as np

from dppca.common.errors import DataError
from dppca.common.privacy.release import calibrate
from dppca.common.results import result_to_bytes
from dppca.curator.store import SqliteStore
from dppca.curator.study.aggregate import aggregate


def pooled_again(name: str, state: Path, payloads: Path) -> bytes:
    """The result file; of the curator's store only who took part is used, and never its bytes.

    Raises
    ------
    DataError
        The study or the vector of an owner that took part is missing.
    """
    with closing(SqliteStore(state)) as store:
        record = store.named(name)
    if record is None:
        raise DataError(f"{state} holds no study {name}")
    vectors = []
    for owner in record.contributed:
        try:
            content = (payloads / owner).read_bytes()
        except OSError as error:
            raise DataError(f"{owner} took part and has stored nothing") from error
        vectors.append(np.frombuffer(content, "<i8").astype(np.int64, copy=False))
    return result_to_bytes(
        aggregate(record.study, calibrate(record.study), record.contributions, vectors)
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(pooled_again(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
