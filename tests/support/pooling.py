"""The release path of a whole federation in one process: same draws, same pooling, no wire."""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.moments.moments import Moments, compute_moments
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import Release, calibrate, draw
from dppca.common.kernel.study import Study
from dppca.curator.study.admission import contribute
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.study_record import Contribution, OwnerHistory, StudyRecord
from tests.support.census import header_of


def pooled_result(
    study: Study, parts: Sequence[NDArray[np.int32] | Moments], *, seed: int
) -> Result:
    """Joint components of the owners' coded rows or sums, with repeatable noise."""
    entropy = SeededEntropy(seed)
    contributions, vectors = [], []
    for owner, rows in sorted(zip(study.owners, parts, strict=True), key=lambda pair: pair[0]):
        release = draw(
            study,
            calibrate(study),
            rows if isinstance(rows, Moments) else compute_moments(rows, study.table.layout),
            release_id=hashlib.sha256(owner.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=entropy,
        )
        contributions.append(contribution_of(owner, release))
        vectors.append(release.packed)
    return aggregate(study, calibrate(study), contributions, vectors)


def contribution_of(owner: str, release: Release | MaskedRelease) -> Contribution:
    header = header_of(release, owner, ledger_length=1, ledger_head=bytes(32))
    return Contribution(header.release, header.n_bytes, header.chain, 0)


def contributed(
    record: StudyRecord, owner: str, release: Release | MaskedRelease, *, now: datetime
) -> StudyRecord:
    """Add a release, which the curator must admit, of an owner without history."""
    header, noise = header_of(release, owner), calibrate(record.study)
    return contribute(record, header, OwnerHistory(), calibration=noise, now=now)[0]
