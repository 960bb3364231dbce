"""Joint components from the owners' noised releases: pure, one vector in memory at a time.

Theory. Releases are integers modulo 2**64, and so is their sum: it does not depend on an order.
`dppca.common.kernel.privacy.mechanisms` keeps a true sum within 63 bits, so it is read back
exactly. With ``trust: aggregate`` the releases are masked, and the openings remove the masks from
their sum only (`dppca.common.kernel.aggregation.pooling`). Dividing by the public number of rows
gives raw moments of all rows together; pooling *raw* moments keeps the variance between the owners'
means. The mean of the owners' own covariances (``within``; Gu et al. 2022, algorithm 1, step 5) is
a sum of floats and so is formed in the order of names.

Everything here is post-processing of private data: it costs nothing. The noise edge is simulated
from a seed, the study's digest, so that every holder of the releases computes the same bytes.

`dppca.common.kernel.privacy.composition` gives the guarantee of the federation, over all owners of
the study.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.spectrum.noise_edge import noise_edge
from dppca.common.analysis.spectrum.pca import (
    count_components,
    decompose,
    empty_covariance,
    pooled_covariance,
)
from dppca.common.kernel.aggregation.pooling import unmask
from dppca.common.kernel.aggregation.sum_messages import Opening, Upload
from dppca.common.kernel.attestation.claims import describe_federation
from dppca.common.kernel.attestation.results import Result, ResultHeader
from dppca.common.kernel.errors import StudyStateError
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.counted_rows import require_rows
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.receipts import SOFTWARE
from dppca.common.kernel.study import Covariance, Study
from dppca.curator.study.sealed_set import make_terms
from dppca.curator.study.study_record import Contribution


def aggregate(
    study: Study,
    calibration: Calibration,
    contributions: Sequence[Contribution],
    vectors: Iterable[NDArray[np.int64]],
    first: Round | None = None,
) -> Result:
    """Pool releases, decompose, count the components to keep.

    ``first`` is the study that this one continues: then there is nothing to decompose.

    ``contributions`` are in the order of the owners' names; ``vectors`` are their packed vectors in
    the same order, each int64 of shape (D,). Each is read once and not used again: the next may
    occupy the same memory. Raise `StudyStateError` if no owner contributed.
    """
    if not contributions:
        raise StudyStateError(f"no owner has contributed to study {study.name}")
    pooled, within = _pool(study, contributions, vectors)
    return _make_result(study, calibration, contributions, pooled, within, first)


def aggregate_masked(
    study: Study,
    calibration: Calibration,
    contributions: Sequence[Contribution],
    uploads: Iterable[Upload],
    openings: Iterable[Opening],
    first: Round | None = None,
) -> Result:
    """Aggregate a study with ``trust: aggregate``; the result is like that from `aggregate`.

    ``uploads`` are exactly the sealed set, and ``openings`` together contain every stream once;
    both are read one at a time. Raise `GarbledSumError` if they do not fit: a party did not follow
    the protocol. Raise `TooFewRowsError` as `aggregate` does.
    """
    pooled = unmask(make_terms(study), uploads, openings)
    return _make_result(study, calibration, contributions, pooled, None, first)


def _make_result(
    study: Study,
    calibration: Calibration,
    contributions: Sequence[Contribution],
    pooled: NDArray[np.int64],
    within: NDArray[np.float64] | None,
    first: Round | None,
) -> Result:
    layout, estimated_rows = study.table.layout, None
    if study.has_secret_rows:
        estimated_rows = require_rows(pooled, layout, calibration, n_owners=len(contributions))
    header = ResultHeader(
        study_digest=study.digest,
        shares=tuple(each.release.share for each in contributions),
        missing=tuple(sorted(set(study.owners) - {c.owner for c in contributions})),
        count=0,
        covariance=study.covariance.value,
        noise_edge=0.0,
        noise_edge_draws=0,
        **asdict(describe_federation(study, calibration, first)),
        software=SOFTWARE,
        estimated_rows=estimated_rows,
    )
    if study.continues is not None:
        return Result(header, pooled, None, None, np.empty(0), np.empty(0))
    mean, second = unpack(pooled, header.n_rows, layout)
    covariance = pooled_covariance(mean, second, overwrite=True) if within is None else within
    with ThreadPoolExecutor(1) as pool:
        simulated = pool.submit(
            noise_edge,
            layout,
            law=calibration.law,
            owner_rows=header.owner_rows,
            released=pooled,
            mean=mean,
            covariance=study.covariance,
            seed=int(study.digest[:16], 16),
            mechanisms=calibration.mechanisms(len(contributions)),
        )
        decomposition = decompose(covariance)
        edge = simulated.result()
    count = count_components(
        decomposition.eigenvalues, study.require_components(), noise_edge=edge.value
    )
    return Result(
        header=replace(header, count=count, noise_edge=edge.value, noise_edge_draws=edge.draws),
        pooled=pooled,
        within=within,
        mean=mean,
        eigenvalues=decomposition.eigenvalues,
        vectors=decomposition.vectors[:count].copy(),
    )


def _pool(
    study: Study, contributions: Sequence[Contribution], vectors: Iterable[NDArray[np.int64]]
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Sum packed vectors modulo 2**64; also the covariance within owners if it is used."""
    layout = study.table.layout
    pooled = np.zeros(layout.n_entries, dtype=np.uint64)
    wants_within = study.covariance is Covariance.WITHIN
    within = empty_covariance(layout.n_columns) if wants_within else None
    for contribution, vector in zip(contributions, vectors, strict=True):
        pooled += vector.view(np.uint64)  # unsigned: wrapping is intended, not an overflow
        if within is not None:
            within = within.add(contribution.n_rows, *unpack(vector, contribution.n_rows, layout))
    return pooled.view(np.int64), None if within is None else within.covariance
