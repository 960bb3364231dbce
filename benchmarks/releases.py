"""Studies in memory: what is asked of the owners, and what a curator makes of their sums."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import NDArray

from dppca.common.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.aggregation.terms import key_bytes
from dppca.common.attestation.releases import SignedRelease
from dppca.common.attestation.results import Result
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.noise.entropy import EntropySource
from dppca.common.privacy.receipts import SOFTWARE
from dppca.common.privacy.release import MomentReceipt, receipt_for
from dppca.common.schema import Schema
from dppca.common.signing import Purpose, sign
from dppca.common.study import Study, study_from_mapping
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.assembly import assemble_study
from dppca.curator.study.study_record import Contribution, LedgerHead
from dppca.deploy.simulation.aggregation import Aggregation, write_draft

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
) -> Study:
    """A study of a schema, whose grid has `BITS` and in which a person has one row.

    Owners' names sort as their numbers do.
    """
    return study_from_mapping(
        {
            "name": name,
            "owners": [owner_name(number) for number in range(owners)],
            "privacy": privacy,
            "components": components or {"contribution_rate": 0.9},
            "schema": {"resolution_bits": BITS, "max_rows_per_person": 1, **schema},
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
) -> Result:
    """What the curator makes of the owners' noised sums."""
    contributions = [
        Contribution(SignedRelease(owner, _receipt(study, calibration, n), b""), 0, _CHAIN, 0)
        for owner, n in zip(study.owners, n_rows, strict=True)
    ]
    return aggregate(study, calibration, contributions, vectors)


def mask_study(
    study: Study,
    keys: Mapping[str, ec.EllipticCurvePrivateKey],
    *,
    openers: int,
    spares: int = 0,
    entropy: EntropySource,
) -> tuple[Study, dict[str, OpenerKey]]:
    """The same study with ``trust: aggregate`` and one colluder, and the openers' secrets."""
    secrets = {name: make_opener_key(entropy) for name in study.owners[:openers]}
    parts = [
        (name, json.dumps(_identity_part(name, key, secrets.get(name))))
        for name, key in keys.items()
    ]
    draft = write_draft(study, Aggregation(colluders=1, openers=openers, spares=spares))
    return assemble_study(draft, parts)[1], secrets


def make_keys(owners: Sequence[str]) -> dict[str, ec.EllipticCurvePrivateKey]:
    """Fresh keys, by owner."""
    return {name: ec.generate_private_key(ec.SECP256R1()) for name in owners}


def _identity_part(
    owner: str, key: ec.EllipticCurvePrivateKey, secret: OpenerKey | None
) -> dict[str, object]:
    """What ``dppca-owner identity`` prints of an owner, who is an opener if it has a secret."""
    document: dict[str, object] = {"identities": {owner: _base64(key_bytes(key.public_key()))}}
    if secret is not None:
        signature = _base64(sign(key, Purpose.OPENER, secret.public))
        document["openers"] = {owner: {"key": _base64(secret.public), "signature": signature}}
    return document


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
