"""Verify a released file: one entry for all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dppca.common.attestation.claims import collusion_claims
from dppca.common.attestation.components import VerifiedReceipt
from dppca.common.attestation.documents import (
    Acknowledged,
    ProvedGuarantee,
    ProvedModel,
    Verification,
    VerifiedClaims,
)
from dppca.common.attestation.envelopes import (
    SUFFIX,
    Claim,
    FileStatement,
    digest_file,
    open_envelope,
    read_envelope,
    read_signed,
)
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.sums import require_sum
from dppca.common.attestation.verify import verify_result
from dppca.common.documents.names import one_line
from dppca.common.errors import (
    ArtefactError,
    SettingError,
)
from dppca.common.shell.clock import utc_now
from dppca.common.transport.revoked import RevocationList

if TYPE_CHECKING:
    from dppca.common.verification.weights import WeightReceipt

_MODEL, _COMPONENTS, _TABLE = "model", "components", "synthetic"
_SUFFIXES = {
    ".npz": _COMPONENTS,
    ".parquet": _TABLE,
    ".arrow": _TABLE,
    ".csv": _TABLE,
    ".skops": _MODEL,
}


def verify_file(
    path: Path,
    *,
    ca: bytes | None,
    revoked: RevocationList | None = None,
    held_since: datetime | None = None,
    now: datetime | None = None,
    uploads: Path | None = None,
) -> Verification:
    """Check every signature, digest and claim of a released file.

    Return the verified claims, in the form that is printed as JSON.

    Parameters
    ----------
    path
        The file or its envelope, which lies beside it.
    ca
        PEM of the authority that certified the parties. With None the certificates in the envelope
        are accepted; this shows that the file is complete and consistent but not who made it.
    revoked
        The authority's revocation list.
    held_since
        Aware: time since which the holder has had the file; certificates revoked later are
        accepted.
    now
        Aware; the clock's by default. Dates are shown against it, and decide nothing.
    uploads
        Folder of the uploads, to add them up again (`dppca.common.attestation.sums.require_sum`);
        for components only, else `SettingError`.

    Raises
    ------
    ArtefactError
        The file cannot be read, or is not of this software.
    ReceiptError, SignatureError, AlteredError
        A check fails; the message names the part at fault.
    """
    parties = KnownParties(ca, revoked=revoked, held_since=held_since)
    path = path.with_name(path.name.removesuffix(SUFFIX))
    kind = _SUFFIXES.get(path.suffix)
    if kind is None:
        raise ArtefactError(
            f"{path.name} is no released file: components end in .npz, synthetic tables in "
            ".parquet, .arrow or .csv, models in .skops"
        )
    if uploads is not None and kind != _COMPONENTS:
        raise SettingError(f"--uploads adds up a sum, and {path.name} holds none: leave it out")
    try:
        path.stat()
        checked, claims = _verify_kind(kind, path, parties, uploads)
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror or error}") from error
    deadline = checked.study.deadline
    certificates = parties.documents(now=now or utc_now(), deadline=deadline)
    return {**claims, "certificates": certificates}


def _verify_kind(
    kind: str, path: Path, parties: KnownParties, uploads: Path | None
) -> tuple[VerifiedReceipt, VerifiedClaims]:
    """Return the components' receipt, and the claims of the file."""

    def begin(
        statement: FileStatement, label: str, software: str, **digests: str
    ) -> VerifiedClaims:
        who = statement.signed_by
        return {
            "kind": kind,
            "label": label,
            "signed_by": f"{who.role.value} {who.name}",
            "authority": parties.authority(),
            "software": software,
            "study": None,
            "study_digest": digests["study"],
            "schema_digest": digests["schema"],
            "guarantee": None,
        }

    if kind == _COMPONENTS:
        checked, result = verify_result(read_signed(path), parties)
        own = checked.document
        digests = {"study": own["study_digest"], "schema": own["schema_digest"]}
        claims = begin(checked.statement, own["label"], own["software"], **digests)
        if uploads is not None:
            require_sum(checked.study, checked.releases, checked.evidence, result.pooled, uploads)
        claims["added_up"] = uploads is not None
    elif kind == _TABLE:
        from dppca.common.attestation.tables import verify_table

        what = "the envelope of the table"
        statement = open_envelope(read_envelope(path), Claim.ROWS, parties, what=what)
        statement.require_digest(digest_file(path))
        checked, table = verify_table(path, statement, parties)
        digests = {"study": table["study_digest"], "schema": table["schema_digest"]}
        claims = begin(statement, table["label"], table["software"], **digests)
        claims["form"], claims["rows"] = table["form"], table["n_rows"]
    else:
        from dppca.common.verification.models import verify_model

        what, signed = "the envelope of the model", read_signed(path)
        statement = open_envelope(signed.envelope, Claim.MODEL, parties, what=what)
        statement.require_digest(signed.sha256.hex())
        checked, model = verify_model(signed.content, statement, parties)
        digests = {"study": model.study_digest, "schema": model.schema_digest}
        claims = begin(statement, model.label, model.software, **digests)
        claims["model"] = _describe_model(model)
    _add_components(claims, checked)
    return checked, claims


def _add_components(claims: VerifiedClaims, checked: VerifiedReceipt) -> None:
    """Add the claims of components to the claims of a file made from them."""
    document = checked.document
    claims["study"] = checked.study.name
    claims["owners"] = [
        {
            "owner": each.owner,
            "rows": each.n_rows,
            "release_id": each.release_id,
            "payload_sha256": each.payload_sha256,
        }
        for each in (release.share for release in checked.releases)
    ]
    claims["missing"] = document["missing"]
    claims["guarantee"] = checked.guarantee
    claims["mechanism"] = document["mechanism"]
    claims["countersigned_by"] = checked.curator.name
    if checked.evidence is not None:
        claims["opened_by"] = sorted({each.opener for each in checked.evidence.openings})
    collusion = collusion_claims(checked.study, checked.calibration)
    if collusion is not None:
        claims["if_more_collude"] = collusion


def _describe_model(receipt: WeightReceipt) -> ProvedModel:
    return {
        "method": receipt.claims.method,
        "target": receipt.claims.target,
        "n_rows": receipt.n_rows,
        "epsilon": receipt.noise.epsilon,
        "delta": receipt.noise.delta,
        "release_id": receipt.release_id,
    }


def verification_text(
    report: Verification, acknowledged: Sequence[Acknowledged] = (), *, ca: Path | None = None
) -> str:
    """Describe the checks for people; ``ca`` is the path of the authority's certificate."""
    model, authority = report.get("model"), report["authority"]
    what = (
        f"{report['kind']} of study {report['study'] or report['study_digest'][:16]}, "
        f"{report['label']}"
    )
    if authority is None:
        lines = [
            f"CONSISTENT, BUT NOBODY VOUCHES FOR IT: {what}",
            "  anybody can make such a file under any names: give the authority's certificate "
            "with --ca",
        ]
    else:
        lines = [
            f"VERIFIED: {what}",
            f"  all parties were certified by authority {authority['name']}, SHA-256 "
            f"{authority['fingerprint']}" + ("" if ca is None else f", from {ca.resolve()}"),
        ]
    lines.append(f"  every byte is as {report['signed_by']} signed it")
    if report["guarantee"] is not None:
        lines += _together_lines(report, report["guarantee"])
    if model is not None:
        lines.append(
            f"  {model['method']} for {model['target']}, on top: epsilon {model['epsilon']}, delta "
            f"{model['delta']}, from {model['n_rows']} rows; computed again from its settings"
        )
    lines += [
        f"  acknowledged by curator {each['curator']} and listed: {each['owner']}"
        for each in acknowledged
    ]
    lines += [
        f"  the certificate of {each['party']}, {each['serial']}, {remark}"
        for each in report["certificates"]
        for remark in each["remarks"]
    ]
    return "\n".join(map(one_line, lines))


def _together_lines(report: VerifiedClaims, guarantee: ProvedGuarantee) -> list[str]:
    noise = report["mechanism"]
    amount = ", ".join(f"{name} {value}" for name, value in noise["parameters"].items())
    owners = ", ".join(f"{each['owner']} ({each['rows']} rows)" for each in report["owners"])
    missing, left = [], []
    if "if_more_collude" in report:
        left.append(f"  if more owners collude: {report['if_more_collude']['words']}")
    if report["missing"]:
        missing.append(
            f"  took no part, by the curator's word: {', '.join(report['missing'])} (counted in "
            "the guarantee all the same: it cannot be checked that a release was not used)"
        )
    return [
        f"  receipts signed by: {owners}",
        *missing,
        *_sum_lines(report),
        f"  countersigned by curator {report['countersigned_by']}",
        f"  computed again from the study: {noise['name']} noise, {amount} for L1 {noise['l1']}, "
        f"squared L2 {noise['l2_squared']}, at {noise['resolution_bits']} bits",
        f"  guarantee of the components: epsilon {guarantee['epsilon']}, delta "
        f"{guarantee['delta']}, provided that:",
        *(f"    {assumption}" for assumption in guarantee["assumptions"]),
        *left,
    ]


def _sum_lines(report: VerifiedClaims) -> list[str]:
    """Describe the pooled sum: its openers, and an addition again if there was one."""
    lines, noise = [], report["mechanism"]
    if "opened_by" in report:
        lines += [
            f"  one masked sum, opened by {', '.join(report['opened_by'])}; all statements, votes "
            "and openings signed by the keys in the study",
            f"  shares of the noise: {noise['honest']} of them make all of it "
            f"({noise['quorum']} owners at least, {noise['colluders']} of whom may collude)",
        ]
    if report.get("added_up"):
        lines.append("  added up again: the sum is that of what was sent")
    return lines
