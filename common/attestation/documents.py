"""What a verification says as JSON: what was found to hold of a released file."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from dppca.common.documents.values import DecimalText, DigestText, Document, PathText, TimeText
from dppca.common.privacy.sensitivity import BallShape, BoxShape


class ProvedGuarantee(TypedDict):
    """A guarantee to one person, over all owners of the study."""

    epsilon: Annotated[DecimalText, "epsilon of all releases together"]
    delta: Annotated[DecimalText, "delta of all releases together"]
    relation: Annotated[str, "which tables are neighbours"]
    max_rows_per_person: Annotated[int, "most rows of one person that are protected"]
    assumptions: Annotated[list[str], "what has to hold for it"]


class ProvedMechanism(TypedDict):
    """The noise of every owner's release or of their sum, computed from the study."""

    name: Annotated[str, "noise: `laplace` or `gaussian`"]
    source: Annotated[str, "where its law is from"]
    l1: Annotated[int, "sensitivity in the L1 norm, integer units"]
    l2_squared: Annotated[int, "squared sensitivity in the L2 norm, integer units"]
    parameters: Annotated[
        dict[str, int],
        "the law's integers: `scale` of Laplace noise, in integer units; `variance` of Gaussian "
        "noise, in squared integer units",
    ]
    resolution_bits: Annotated[int, "binary digits of a coded value"]
    formula: Annotated[BoxShape | BallShape, "what the sensitivity is computed from"]
    trust: NotRequired[Annotated[str, "`aggregate`: the noise is of the owners' sum"]]
    colluders: NotRequired[
        Annotated[int, "owners that may work with the curator; `trust: aggregate`"]
    ]
    quorum: NotRequired[Annotated[int, "fewest owners in the sum; `trust: aggregate`"]]
    honest: NotRequired[
        Annotated[int, "owners whose shares of the noise make all of it; `trust: aggregate`"]
    ]
    share_variance: NotRequired[
        Annotated[
            int | None,
            "variance of one owner's share, where it is a whole number; `trust: aggregate`",
        ]
    ]


class ProvedCollusion(TypedDict):
    """Epsilon, at the same delta, if more owners collude; null where nothing is promised."""

    one_more: Annotated[DecimalText | None, "if one more owner colludes"]
    all_others: Annotated[DecimalText | None, "if all other owners collude"]
    words: Annotated[str, "the same in words"]


class ProvedContribution(TypedDict):
    """An owner's contribution, by its signed receipt."""

    owner: Annotated[str, "name of the owner"]
    rows: Annotated[int, "rows that its receipt states"]
    release_id: Annotated[DigestText, "identifier of the release"]
    payload_sha256: Annotated[DigestText, "SHA-256 of the release"]


class ProvedModel(TypedDict):
    """A released model, by its receipt."""

    method: Annotated[str, "the method"]
    target: Annotated[str, "attribute that it predicts"]
    n_rows: Annotated[int, "rows that it was trained on"]
    epsilon: Annotated[DecimalText, "epsilon of its guarantee"]
    delta: Annotated[DecimalText, "delta of its guarantee"]
    release_id: Annotated[DigestText, "identifier of the release"]


class MetCertificate(TypedDict):
    """A certificate whose key signed something in the file."""

    party: Annotated[str, "role and name"]
    signed: Annotated[str, "what it signed"]
    serial: Annotated[DigestText, "serial number"]
    valid_from: Annotated[TimeText, "when it begins"]
    valid_until: Annotated[TimeText, "when it ends"]
    revoked: Annotated[TimeText | None, "when it was revoked"]
    remarks: Annotated[list[str], "what to know of its dates"]


class Acknowledged(TypedDict):
    """A contribution that a curator acknowledged and the result lists."""

    owner: Annotated[str, "name of the owner"]
    release_id: Annotated[DigestText, "identifier of the release"]
    curator: Annotated[str, "name of the curator that signed"]


class VouchingAuthority(TypedDict):
    """The authority whose certificate was given, and which certified every party."""

    name: Annotated[str, "its name, as its certificate has it"]
    fingerprint: Annotated[DigestText, "SHA-256 of its public key"]


class VerifiedClaims(TypedDict):
    """What a file claims, once it was found to hold."""

    kind: Annotated[str, "`components`, `synthetic` or `model`"]
    label: Annotated[str, "where the file may go"]
    signed_by: Annotated[str, "role and name of the party that signed the file"]
    authority: Annotated[
        VouchingAuthority | None, "who certified the parties; null: nobody vouches for the file"
    ]
    software: Annotated[str, "version that made the file"]
    study: Annotated[str | None, "name of the study; null if the file does not hold the study"]
    study_digest: Annotated[DigestText, "digest of the study"]
    schema_digest: Annotated[DigestText, "digest of the schema"]
    owners: NotRequired[Annotated[list[ProvedContribution], "contributions in the components"]]
    missing: NotRequired[Annotated[list[str], "owners that took no part"]]
    guarantee: Annotated[ProvedGuarantee | None, "guarantee of the components, computed here"]
    mechanism: NotRequired[Annotated[ProvedMechanism, "noise of every contribution"]]
    countersigned_by: NotRequired[Annotated[str, "name of the curator"]]
    if_more_collude: NotRequired[Annotated[ProvedCollusion, "what is left; of `trust: aggregate`"]]
    opened_by: NotRequired[Annotated[list[str], "openers of the masked sum; of `trust: aggregate`"]]
    added_up: NotRequired[
        Annotated[bool, "whether what was sent was added up again; of components"]
    ]
    form: NotRequired[Annotated[str, "`coded` or `decoded`; of synthetic rows"]]
    rows: NotRequired[Annotated[int, "number of rows; of synthetic rows"]]
    model: NotRequired[Annotated[ProvedModel, "the model; of a model"]]


class Verification(VerifiedClaims):
    """What was found to hold of a released file."""

    certificates: Annotated[list[MetCertificate], "certificates whose keys signed"]


class VerificationDocument(Document, Verification):
    """A released file whose signatures, digests and claims hold."""

    file: Annotated[PathText, "the file"]
    acknowledged: Annotated[list[Acknowledged], "acknowledgements that the result agrees with"]
