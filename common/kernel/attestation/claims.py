"""Claims of a receipt: computed from the study's document, then compared with the receipt."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from dppca.common.kernel.documents.amounts import Whole
from dppca.common.kernel.documents.values import DigestText, canonical_json, differing_keys
from dppca.common.kernel.errors import AlteredError, ReceiptError, SettingError, StudyError
from dppca.common.kernel.privacy.added_rows import AddedShape
from dppca.common.kernel.privacy.composition import ComposedGuarantee, Round, compose_guarantee
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import (
    MaskedClaims,
    MomentReceipt,
    masked_receipt_for,
    receipt_for,
    released_shape,
)
from dppca.common.kernel.privacy.sensitivity import Shape
from dppca.common.kernel.study import Study, study_from_canonical

LEAST_REPLICATES, MOST_REPLICATES = 4, 1000  # tables of one result; fewer say nothing of the spread
_NOT_REAL = (
    "do not compute standard errors from these rows as if they were real: use `estimate`, or "
    "replicates"
)


@dataclass(frozen=True, slots=True)
class ProvedGuarantee(ComposedGuarantee):
    """Guarantee to one person, over all owners of the study."""

    relation: Annotated[str, "which tables are neighbours"]
    max_rows_per_person: Annotated[
        int | None, "most rows of one person that are protected; null if any number is"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedMechanism:
    """Noise of every owner's release, computed from the study."""

    name: Annotated[str, "noise: name of its law, such as `laplace`"]
    source: Annotated[str, "where its law is from"]
    l1: Annotated[Whole, "sensitivity in the L1 norm, integer units"]
    l2_squared: Annotated[Whole, "squared sensitivity in the L2 norm, integer units"]
    parameters: Annotated[
        dict[str, Whole],
        "the law's integers: `scale` of Laplace noise, in integer units; `variance` of Gaussian "
        "noise, in squared integer units, and `product_variance` of products with half of it",
    ]
    resolution_bits: Annotated[int, "binary digits of a coded value"]
    formula: Annotated[Shape | AddedShape, "what the sensitivity is computed from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SumMechanism(ProvedMechanism):
    """Noise of the owners' sum with ``trust: aggregate``, computed from the study."""

    trust: Annotated[str, "`aggregate`: the noise is of the owners' sum"]
    colluders: Annotated[int, "owners that may work with the curator"]
    quorum: Annotated[int, "fewest owners in the sum"]
    honest: Annotated[int, "owners whose shares of the noise make all of it"]
    share_variance: Annotated[
        Whole | None, "variance of one owner's share, where it is a whole number"
    ]


@dataclass(frozen=True, slots=True)
class Replicate:
    """Which replicate of a release a table is."""

    number: Annotated[int, "which one, from 1"]
    of: Annotated[int, "how many belong together, 4 at least"]
    release: Annotated[DigestText, "SHA-256 of the result file that they were made from"]

    def __post_init__(self) -> None:
        counted = type(self.number) is int and type(self.of) is int
        if not (counted and LEAST_REPLICATES <= self.of <= MOST_REPLICATES):
            raise SettingError(
                f"{self.of} replicates asked for; from {LEAST_REPLICATES} to {MOST_REPLICATES} can "
                "be combined"
            )
        if not 1 <= self.number <= self.of:
            raise SettingError(f"there is no replicate {self.number} of {self.of}")


def use_text(replicate: Replicate | None) -> str:
    """Return what a table's receipt says of its use; None is a table that is no replicate."""
    if replicate is None:
        return _NOT_REAL
    return (
        f"replicate {replicate.number} of {replicate.of} of release {replicate.release}; its law "
        "of noise was added once more; no further charge; to be used only with the others, by "
        "`combine`; not more rows"
    )


def describe_mechanism(study: Study, calibration: Calibration) -> ProvedMechanism:
    """Return the noise of every owner's release or of their sum, and the source of its law."""
    noise: dict[str, Any] = {
        "name": calibration.law.name,
        "source": calibration.law.source,
        "l1": calibration.sensitivity.l1,
        "l2_squared": calibration.sensitivity.l2_squared,
        "parameters": calibration.law.parameters(),
        "resolution_bits": study.table.resolution_bits,
        "formula": released_shape(study.table),
    }
    if study.privacy.colluders is None or study.n_honest_owners is None:
        return ProvedMechanism(**noise)
    return SumMechanism(
        **noise,
        trust=study.trust.value,
        colluders=study.privacy.colluders,
        quorum=study.required_contributions,
        honest=study.n_honest_owners,
        share_variance=calibration.share_variance,
    )


def describe_federation(
    study: Study, calibration: Calibration, first: Round | None = None
) -> ProvedGuarantee:
    """Return the guarantee to one person, over all owners of the study.

    ``first`` is the study that it continues: what it counts was chosen by that study's result, so
    the figures are of both together.
    """
    return ProvedGuarantee(
        **asdict(compose_guarantee(study, calibration, first=first)),
        relation=calibration.sensitivity.relation.value,
        max_rows_per_person=calibration.max_rows_per_person,
    )


def study_in(document: object, *, digest: object, schema_digest: object) -> Study:
    """Return the study in a receipt; `AlteredError` if it is none or does not have its digests."""
    try:
        study = study_from_canonical(canonical_json(document))
    except (StudyError, ValueError, TypeError, RecursionError) as error:
        raise AlteredError(f"the study's document in the receipt: {error}") from error
    if (study.digest, study.table.digest) != (digest, schema_digest):
        raise AlteredError(
            "the study's document in the receipt does not have the digests that stand there"
        )
    return study


def require_implied(
    study: Study, calibration: Calibration, receipt: MomentReceipt, *, owner: str
) -> None:
    """Compute sensitivity, noise and charge of an owner's receipt again, and compare.

    Raise `ReceiptError`, naming the fields, if a release of this study has another receipt.
    """
    claims, honest = receipt.claims, study.n_honest_owners
    release: dict[str, Any] = {
        "release_id": bytes.fromhex(receipt.release_id),
        "n_rows": receipt.n_rows,
        "payload_sha256": claims.payload_sha256,
        "ledger_sequence": receipt.ledger_sequence,
        "software": receipt.software,
    }
    if honest is None:
        expected = receipt_for(study, calibration, **release)
    elif isinstance(claims, MaskedClaims):
        release["statement_sha256"] = claims.statement_sha256
        expected = masked_receipt_for(study, calibration, honest=honest, **release)
    else:
        raise ReceiptError(f"the receipt of {owner} is not of a masked contribution, as its study")
    require_equal(expected.document(), receipt.document(), what=f"the receipt of {owner}")


def require_equal(
    expected: Mapping[str, object], stated: Mapping[str, object], *, what: str
) -> None:
    """Raise `ReceiptError`, naming the fields, unless a document states the expected values."""
    wrong = list(differing_keys(expected, stated))
    if wrong:
        raise ReceiptError(
            f"{what} claims what does not follow from the study, in: {', '.join(wrong)}"
        )
