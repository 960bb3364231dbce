"""Receipts: the claims of a release and its cost, in one form for every kind, for others to check.

A receipt is one flat JSON document. Some of its fields are the same for every kind of release, some
describe the noise and its cost (`NoiseSection`), and the rest are the kind's own (`Claims`). Each
kind has one function that computes its receipt from public numbers: the owner calls it to write a
receipt, a verifier calls it to compare.

Decimals are text, and whole numbers from 2^53 on, which 0.1.0 wrote as numbers; digests are
hexadecimal.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from dppca.common.kernel.documents.amounts import Whole, whole
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.privacy.labels import Label

if TYPE_CHECKING:
    from dppca.common.kernel.privacy.mechanisms import Calibration

SOFTWARE = f"dppca {version('dppca-verify')}"


@dataclass(frozen=True, slots=True)
class NoiseSection:
    """Noise of a release, its cost, and the neighbouring tables of its claim.

    ``l1`` and ``l2_squared`` are for one changed row or person, in steps of the integers that were
    noised, ``4**-resolution_bits`` for sums, and their squares; the law's ``parameters`` likewise.
    ``max_rows_per_person`` is None where a person may have any number of rows. ``epsilon`` and
    ``delta`` are the claim; ``charged_epsilon`` and ``charged_rho`` are the ledger's charge.
    """

    mechanism: str
    source: str
    resolution_bits: int
    l1: Whole
    l2_squared: Whole
    parameters: dict[str, Whole]
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str
    relation: str
    max_rows_per_person: int | None

    @classmethod
    def from_calibration(cls, noise: "Calibration") -> Self:
        """Return the calibrated noise with its cost."""
        return cls(
            mechanism=noise.law.name,
            source=noise.law.source,
            resolution_bits=noise.sensitivity.resolution_bits,
            l1=whole(noise.sensitivity.l1),
            l2_squared=whole(noise.sensitivity.l2_squared),
            parameters={name: whole(each) for name, each in noise.law.parameters().items()},
            relation=noise.sensitivity.relation.value,
            max_rows_per_person=noise.max_rows_per_person,
            **noise.price.fields(),
        )


@dataclass(frozen=True, slots=True)
class Claims:
    """Fields of a receipt that belong to its kind of release."""


ClaimsT = TypeVar("ClaimsT", bound=Claims)


@dataclass(frozen=True, slots=True)
class Receipt(Generic[ClaimsT]):
    """Document with which a third party checks a release of any kind."""

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
        """Return the flat document; its values are JSON's, except for tuples."""
        document = asdict(self)
        claims, noise = document.pop("claims"), document.pop("noise")
        return {**document, **claims, **noise}

    def canonical_bytes(self) -> bytes:
        """Return the document as canonical JSON."""
        return canonical_json(self.document())


def read_receipt(document: Mapping[str, Any], claims: type[ClaimsT]) -> Receipt[ClaimsT]:
    """Read the receipt of a kind of release; its values are not checked here.

    Who relies on one computes it again (`dppca.common.kernel.attestation.claims.require_equal`).

    Raise `KeyError`, `TypeError` or `ValueError` if a field is missing, or there is one too many.
    """
    section = NoiseSection(**_take(NoiseSection, document))
    own = claims(**_take(claims, document))
    common = {name: value for name, value in document.items() if name not in ("claims", "noise")}
    receipt = Receipt(claims=own, noise=section, **_take(Receipt, common))
    if receipt.document().keys() != document.keys():
        raise ValueError("the receipt has other fields than its kind of release")
    return receipt


def _take(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of ``kind`` that stand in a document; lists become tuples."""
    names = [each.name for each in fields(kind) if each.name in document]
    values = ((name, document[name]) for name in names)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values}
