"""Receipts: what a release claims, what it cost, and how to check it; one form for every kind.

A receipt is one flat JSON document. Some of its fields are the same for every kind of release, some
say what noise was drawn and what it cost (`NoiseSection`), and the rest are the kind's own
(`Claims`). Each kind has one function that computes its receipt from public numbers: the
owner calls it to write a receipt, a verifier calls it to compare.

Decimals are text; digests are hexadecimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from importlib.metadata import version
from typing import Any, Generic, Self, TypeVar

from dppca.common.documents.amounts import decimal_text
from dppca.common.privacy.accounting import PrivacyCost
from dppca.common.privacy.labels import Label
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.schema.document import canonical_json

SOFTWARE = f"dppca {version('dppca')}"


@dataclass(frozen=True, slots=True)
class NoiseSection:
    """The noise of a release, its cost, and the neighbours that the claim is for.

    ``l1`` and ``l2_squared`` are for one changed row, in steps of the integers that were noised,
    ``4**-resolution_bits`` for sums, and their squares; the law's ``parameters`` likewise.
    ``epsilon`` and ``delta`` are the claim; ``charged_epsilon`` and ``charged_rho`` are what the
    ledger charged.
    """

    mechanism: str
    source: str
    resolution_bits: int
    l1: int
    l2_squared: int
    parameters: dict[str, int]
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str
    relation: str
    max_rows_per_person: int

    @classmethod
    def from_calibration(cls, noise: Calibration) -> Self:
        """The noise that was calibrated, with its cost."""
        return cls(
            mechanism=noise.law.name,
            source=noise.law.source,
            resolution_bits=noise.sensitivity.resolution_bits,
            l1=noise.sensitivity.l1,
            l2_squared=noise.sensitivity.l2_squared,
            parameters=noise.law.parameters(),
            relation=noise.sensitivity.relation.value,
            max_rows_per_person=noise.max_rows_per_person,
            **cost_fields(noise.epsilon, noise.delta, noise.charge),
        )


@dataclass(frozen=True, slots=True)
class Claims:
    """What a receipt says that is its kind's own."""


ClaimsT = TypeVar("ClaimsT", bound=Claims)


@dataclass(frozen=True, slots=True)
class Receipt(Generic[ClaimsT]):
    """What a third party needs to check a release of any kind."""

    study_digest: str
    schema_digest: str
    release_id: str
    n_rows: int
    claims: ClaimsT
    noise: NoiseSection
    ledger_sequence: int
    software: str
    label: str = Label.RELEASED.value
    version: int = 1

    def document(self) -> dict[str, object]:
        """The flat document; its values are JSON's, tuples apart."""
        document = asdict(self)
        claims, noise = document.pop("claims"), document.pop("noise")
        return {**document, **claims, **noise}

    def canonical_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(self.document())


def read_receipt(document: Mapping[str, Any], claims: type[ClaimsT]) -> Receipt[ClaimsT]:
    """Read the receipt of a kind of release; nothing in it is believed.

    Raises
    ------
    KeyError, TypeError, ValueError
        A field is missing, or one too many.
    """
    section = NoiseSection(**_take(NoiseSection, document))
    own = claims(**_take(claims, document))
    common = {name: value for name, value in document.items() if name not in ("claims", "noise")}
    receipt = Receipt(claims=own, noise=section, **_take(Receipt, common))
    if receipt.document().keys() != document.keys():
        raise ValueError("the receipt has other fields than its kind of release")
    return receipt


def _take(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``kind`` that stand in a document; lists become tuples."""
    names = [each.name for each in fields(kind) if each.name in document]
    values = ((name, document[name]) for name in names)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values}


CostFields = dict[str, str]
"""A claim and its charge, as `NoiseSection` has them; decimals."""


def cost_fields(epsilon: Decimal, delta: Decimal, charge: PrivacyCost) -> CostFields:
    """The claim and the charge as receipts have them."""
    return {
        "epsilon": decimal_text(epsilon),
        "delta": decimal_text(delta),
        "charged_epsilon": decimal_text(charge.epsilon),
        "charged_rho": decimal_text(charge.rho),
    }
