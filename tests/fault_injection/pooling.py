"""The result once more, from what the owners have stored.

``pooling.py STUDY STATE PAYLOADS`` prints the result, without the curator's receipt, that the
vectors in the folder PAYLOADS pool to: one file for each owner that took part in the study of a
curator's state folder, and where the study has ``trust: aggregate``, one ``OPENER.STREAM`` for the
sum of each stream that was opened. It runs where the curator ran: the last bits of eigenvectors are
those of one version of the numerical libraries, and bit for bit is what is asked.
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import numpy as np

from dppca.common.aggregation.sum_messages import Opening, Upload
from dppca.common.errors import DataError
from dppca.common.privacy.release import calibrate
from dppca.common.results import result_to_bytes
from dppca.curator.store import SqliteStore
from dppca.curator.study.aggregate import aggregate, aggregate_masked
from dppca.curator.study.sealed_set import make_terms


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
    study, contributions = record.study, record.contributions
    calibration = calibrate(study)
    contents = [_read(payloads, owner) for owner in record.contributed]
    if record.sealing is None:
        vectors = [np.frombuffer(content, "<i8").astype(np.int64) for content in contents]
        return result_to_bytes(aggregate(study, calibration, contributions, vectors))
    terms = make_terms(study)
    uploads = [Upload.from_bytes(content, terms) for content in contents]
    openings = [
        Opening(terms.digest, record.sealing.set_digest.hex(), each.opener, each.streams, total)
        for each in record.openings
        for total in [_read(payloads, f"{each.opener}.{each.streams[0]}")]
    ]
    return result_to_bytes(aggregate_masked(study, calibration, contributions, uploads, openings))


def _read(payloads: Path, name: str) -> bytes:
    try:
        return (payloads / name).read_bytes()
    except OSError as error:
        raise DataError(f"{name} took part and has stored nothing") from error


if __name__ == "__main__":
    sys.stdout.buffer.write(pooled_again(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
