"""Studies with ``trust: aggregate``, with all keys of all parties, the same in every run."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.aggregation.terms import Terms, key_bytes
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.signing import Purpose, sign
from dppca.common.study import Study
from dppca.common.study_document import study_from_mapping
from tests.support.aggregation import signing_key
from tests.support.studies import study_document

OPEN_BY = "2100-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class MaskedStudy:
    """A study document and the secrets behind it."""

    study: Study
    keys: dict[str, ec.EllipticCurvePrivateKey]
    secrets: dict[str, OpenerKey]

    @property
    def terms(self) -> Terms:
        return Terms.from_study(self.study)


def base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def masked_document(
    keys: dict[str, ec.EllipticCurvePrivateKey],
    secrets: dict[str, OpenerKey],
    *,
    mechanism: str = "gaussian",
    epsilon: str = "1.0",
    colluders: int = 1,
    **changes: Any,
) -> dict[str, Any]:
    """The document that an operator would write of these keys; fields as given."""
    privacy = {
        "mechanism": mechanism,
        "epsilon": epsilon,
        "trust": "aggregate",
        "colluders": colluders,
    }
    if mechanism == "gaussian":
        privacy["delta"] = "1e-6"
    openers = {
        name: {
            "key": base64_text(secret.public),
            "signature": base64_text(sign(keys[name], Purpose.OPENER, secret.public)),
        }
        for name, secret in secrets.items()
    }
    attributes = changes.pop(
        "attributes", [{"name": name, "type": "binary", "values": ["no", "yes"]} for name in "ab"]
    )
    document: dict[str, Any] = {
        "version": 2,
        "owners": sorted(keys),
        "privacy": privacy,
        "identities": {
            name: base64_text(key_bytes(key.public_key())) for name, key in keys.items()
        },
        "openers": openers,
        "open_by": OPEN_BY,
        **changes,
    }
    return study_document(attributes, **document)


def make_masked_study(
    n_owners: int = 4, n_openers: int = 2, *, seed: int = 0, **changes: Any
) -> MaskedStudy:
    """A study of owner-1, owner-2, ..., of whom the first are openers."""
    names = [f"owner-{place + 1}" for place in range(n_owners)]
    keys = {name: signing_key(100 * seed + place) for place, name in enumerate(names)}
    entropy = SeededEntropy(seed)
    secrets = {name: make_opener_key(entropy) for name in names[:n_openers]}
    study = study_from_mapping(masked_document(keys, secrets, **changes))
    return MaskedStudy(study, keys, secrets)
