"""Studies in memory: what is asked of the owners, and what a curator makes of their sums."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.study_file import study_from_document
from dppca.common.kernel.attestation.contributions import SignedRelease
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.receipts import SOFTWARE
from dppca.common.kernel.privacy.release import MomentReceipt, receipt_for
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.study_record import Contribution, LedgerHead

BITS = 10
"""Bits of the grid, unless a study says otherwise."""
_CHAIN = LedgerHead(0, b"")


def state_study(
    name: str,
    schema: Mapping[str, Any],
    privacy: Mapping[str, str],
    *,
    owners: int,
    components: Mapping[str, Any] | None = None,
    **others: Any,
) -> Study:
    """A study of a schema, whose grid has `BITS` and in which a person has one row.

    Owners' names sort as their numbers do. ``others`` are other fields of the study.
    """
    return study_from_document(
        {
            "name": name,
            "owners": [owner_name(number) for number in range(owners)],
            "privacy": privacy,
            "components": components or {"contribution_rate": 0.9},
            "schema": {"resolution_bits": BITS, "max_rows_per_person": 1, **schema},
            **others,
        }
    )


def owner_name(number: int) -> str:
    """Names that sort as their numbers do."""
    return f"owner-{number:05d}"


def state_privacy(epsilon: str, delta: str | None) -> dict[str, str]:
    """Gaussian noise, or Laplace noise where there is no delta."""
    if delta:
        return {"mechanism": "gaussian", "epsilon": epsilon, "delta": delta}
    return {"mechanism": "laplace", "epsilon": epsilon}


def numeric_attributes(
    count: int, lower: float, upper: float, *, stem: str = "x", **others: Any
) -> list[dict[str, Any]]:
    """Numerics x0, x1, ... with the same bounds."""
    bounds = {"type": "numeric", "lower": lower, "upper": upper, **others}
    return [{"name": f"{stem}{index}", **bounds} for index in range(count)]


def numeric_attribute(name: str, lower: float, upper: float) -> dict[str, Any]:
    """A numeric with these bounds."""
    return {"name": name, "type": "numeric", "lower": lower, "upper": upper}


def label_attribute(name: str, labels: Sequence[Any]) -> dict[str, Any]:
    """An attribute with these labels: a binary of two, else a categorical."""
    kind, key = ("binary", "values") if len(labels) == 2 else ("categorical", "categories")
    return {"name": name, "type": kind, key: list(labels)}


def plain_attributes(schema: Schema) -> list[dict[str, Any]]:
    """A schema's attributes with their bounds or labels, and nothing else."""
    known = ("name", "type", "lower", "upper", "values", "categories")
    documents = [each.model_dump(mode="json") for each in schema.attributes]
    return [{name: each[name] for name in known if name in each} for each in documents]


def _receipt(study: Study, calibration: Calibration, n_rows: int) -> MomentReceipt:
    return receipt_for(
        study,
        calibration,
        release_id=bytes(16),
        n_rows=n_rows,
        payload_sha256="",
        ledger_sequence=1,
        software=SOFTWARE,
    )


def pool(
    study: Study,
    calibration: Calibration,
    n_rows: Iterable[int],
    vectors: Iterable[NDArray[np.int64]],
    first: Round | None = None,
) -> Result:
    """What the curator makes of the owners' noised sums; ``first`` is what the study continues."""
    contributions = [
        Contribution(SignedRelease(owner, _receipt(study, calibration, n), b""), 0, _CHAIN, 0)
        for owner, n in zip(study.owners, n_rows, strict=True)
    ]
    return aggregate(study, calibration, contributions, vectors, first)
