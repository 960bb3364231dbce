"""The release path of a whole federation in one process: same draws, same pooling, no wire."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.numerics.moments import moments_of
from common.privacy.entropy import SeededEntropy
from common.privacy.release import draw
from common.results import Result
from common.study import Study
from curator.aggregate import aggregate
from curator.record import Chain, Contribution


def pooled_result(study: Study, parts: Sequence[NDArray[np.int32]], *, seed: int) -> Result:
    """Joint components of the owners' coded rows, with noise that a test can repeat."""
    entropy = SeededEntropy(seed)
    contributions, vectors = [], []
    for owner, rows in sorted(zip(study.owners, parts, strict=True), key=lambda pair: pair[0]):
        release = draw(
            study,
            moments_of(rows, study.table.layout),
            release_id=hashlib.sha256(owner.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=entropy,
        )
        contributions.append(
            Contribution(
                owner=owner,
                release_id=release.release_id,
                n_rows=release.n_rows,
                n_bytes=len(release.payload()),
                sha256=hashlib.sha256(release.payload()).digest(),
                chain=Chain(1, bytes(32)),
                receipt=release.receipt.canonical_bytes(),
                received_s=0,
            )
        )
        vectors.append(release.packed)
    return aggregate(study, contributions, vectors)
