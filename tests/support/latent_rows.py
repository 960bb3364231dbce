"""Rows for a ``latent`` study, and its result without a curator: moments without noise."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dppca.common.analysis.spectrum.pca import count_components, decompose, pooled_covariance
from dppca.common.kernel.attestation.claims import describe_federation
from dppca.common.kernel.attestation.results import Result, ResultHeader, Share
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.studies import COLOURS


def make_rows(n_rows: int, seed: int = 0) -> pa.Table:
    """Rows in which ``ill`` and ``colour`` follow from the numerics, up to some noise."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n_rows, 2))
    numerics = latent @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(n_rows, 4))
    ill = latent[:, 0] + 0.1 * rng.normal(size=n_rows) > 0
    colour = np.digitize(latent[:, 1], [-0.5, 0.5])
    columns: dict[str, Any] = {f"x{i}": numerics[:, i] for i in range(4)}
    columns["ill"] = np.where(ill, "yes", "no")
    columns["colour"] = np.array(COLOURS)[colour]
    return pa.table(columns)


def save_rows(rows: pa.Table, path: Path) -> Path:
    pq.write_table(rows, path)
    return path


def make_result(study: Study, path: Path, *, key: str = "") -> Result:
    """Compute the result of ``study`` if its one owner holds these rows and adds no noise."""
    with open_table(path, study.table).latest(key) as table:
        moments = moments_of_table(table, study.table)
    mean, second = unpack(moments.packed, moments.n_rows, study.table.layout)
    parts = decompose(pooled_covariance(mean, second))
    count = count_components(parts.eigenvalues, study.components, noise_edge=0.0)
    header = ResultHeader(
        study_digest=study.digest,
        shares=(Share("owner-1", "0" * 32, moments.n_rows, "0" * 64),),
        missing=(),
        count=count,
        covariance=study.covariance.value,
        noise_edge=0.0,
        noise_edge_draws=0,
        **asdict(describe_federation(study, calibrate(study))),
        software="test",
    )
    return Result(header, moments.packed, None, mean, parts.eigenvalues, parts.vectors[:count])
