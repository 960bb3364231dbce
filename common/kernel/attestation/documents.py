"""Findings of a verification."""

from dataclasses import dataclass
from typing import Annotated

from dppca.common.kernel.attestation.claims import (
    ProvedGuarantee,
    ProvedMechanism,
    Replicate,
    SumMechanism,
)
from dppca.common.kernel.attestation.parties import MetCertificate
from dppca.common.kernel.attestation.results import Share
from dppca.common.kernel.attestation.signatures import VouchingAuthority
from dppca.common.kernel.consent.signed_people import SignedByPeople
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.values import DecimalText, DigestText, PathText
from dppca.common.kernel.privacy.collusion import Collusion


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedModel:
    """Released model, by its receipt."""

    method: Annotated[str, "the method"]
    target: Annotated[str, "attribute that it predicts"]
    n_rows: Annotated[int, "rows that it was trained on"]
    epsilon: Annotated[DecimalText, "epsilon of its guarantee"]
    delta: Annotated[DecimalText, "delta of its guarantee"]
    release_id: Annotated[DigestText, "identifier of the release"]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Contribution that a curator acknowledged and the result lists."""

    owner: Annotated[str, "name of the owner"]
    release_id: Annotated[DigestText, "identifier of the release"]
    curator: Annotated[str, "name of the curator that signed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Released file whose signatures, digests and claims hold."""

    file: Annotated[PathText, "the file"]
    kind: Annotated[str, "`components`, `counts`, `synthetic` or `model`"]
    label: Annotated[str, "where the file may go"]
    signed_by: Annotated[str, "role and name of the party that signed the file"]
    authority: Annotated[
        VouchingAuthority | None, "who certified the parties; null: nobody vouches for the file"
    ]
    software: Annotated[str, "version that made the file"]
    study: Annotated[str, "name of the study"]
    stated: Annotated[Stated, "what it is for, in its operator's words"]
    study_digest: Annotated[DigestText, "digest of the study"]
    schema_digest: Annotated[DigestText, "digest of the schema"]
    continues: Annotated[
        str | None, "study that it continues, whose result was verified too; null for none"
    ]
    owners: Annotated[tuple[Share, ...], "contributions in the components"]
    missing: Annotated[tuple[str, ...], "owners that did not take part"]
    guarantee: Annotated[
        ProvedGuarantee, "guarantee of the result, and of the one that it continues, computed here"
    ]
    mechanism: Annotated[ProvedMechanism | SumMechanism, "noise of every contribution"]
    countersigned_by: Annotated[str, "name of the curator"]
    if_more_collude: Annotated[Collusion | None, "of `trust: aggregate`, what is left; else null"]
    signatories: Annotated[
        tuple[SignedByPeople, ...],
        "people of owners who have signed what the study got, by the roles that it pins",
    ]
    opening_signatories: Annotated[
        tuple[SignedByPeople, ...],
        "of `trust: aggregate`, people of openers who have signed the set that was opened",
    ] = ()
    opened_by: Annotated[
        tuple[str, ...] | None, "of `trust: aggregate`, openers of the masked sum; else null"
    ]
    added_up: Annotated[
        bool | None, "of components, whether the sum was added up again; else null"
    ] = None
    form: Annotated[str | None, "of synthetic rows, `coded` or `decoded`; else null"] = None
    rows: Annotated[int | None, "of synthetic rows, their number; else null"] = None
    replicate: Annotated[Replicate | None, "of a replicate, which it is; else null"] = None
    use: Annotated[str | None, "of synthetic rows, what they are not for; else null"] = None
    model: Annotated[ProvedModel | None, "of a model, what it is; else null"] = None
    certificates: Annotated[tuple[MetCertificate, ...], "certificates whose keys signed"]
    acknowledged: Annotated[
        tuple[Acknowledged, ...], "acknowledgements that the result agrees with"
    ] = ()
