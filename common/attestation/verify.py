"""Verify a released file: one entry for all kinds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dppca.common.archives import array_in, read_archive
from dppca.common.attestation import seal
from dppca.common.attestation.components import Checked, check_envelope, check_result
from dppca.common.attestation.documents import (
    Acknowledged,
    Claims,
    ProvedGuarantee,
    ProvedModel,
    Sealed,
    Verification,
)
from dppca.common.attestation.models import read_comment, verify_model
from dppca.common.attestation.parties import Parties
from dppca.common.attestation.summaries import verify_summary
from dppca.common.attestation.tables import verify_table
from dppca.common.errors import (
    AlteredError,
    ArtefactError,
    ReceiptError,
    SettingError,
    SignatureError,
)
from dppca.common.names import one_line
from dppca.common.results import Result, result_from_bytes
from dppca.common.schema.document import canonical_json
from dppca.common.study import Study
from dppca.common.transport.revoked import RevocationList, read_list
from dppca.common.transport.tls import Identity

_MODEL, _COMPONENTS, _TABLE, _SUMMARY = "model", "components", "synthetic", "summary"
_SUFFIXES = {
    ".npz": _COMPONENTS,
    ".parquet": _TABLE,
    ".arrow": _TABLE,
    ".skops": _MODEL,
    ".json": _SUMMARY,
}


def verify_file(
    path: Path,
    *,
    ca: bytes | None,
    revoked: RevocationList | None = None,
    held_since: datetime | None = None,
    now: datetime | None = None,
) -> Verification:
    """Check every signature, digest and claim of a released file.

    Parameters
    ----------
    ca
        PEM of the authority that certified the parties; None to take the certificates in the file
        as they are, which shows that the file is whole and consistent but not who made it.
    revoked
        The authority's revocation list.
    held_since
        Aware: since when the holder has the file, which excuses certificates revoked later.
    now
        Aware; the clock's by default. Dates are shown against it, and decide nothing.

    Returns
    -------
    Verification
        What was found to hold, as it is printed as JSON.

    Raises
    ------
    ArtefactError
        The file cannot be read, or is none of this software's.
    ReceiptError, SignatureError, AlteredError
        Names the part at fault.
    """
    parties = Parties(ca, revoked=revoked, held_since=held_since)
    kind = _SUFFIXES.get(path.suffix)
    if kind is None:
        raise ArtefactError(
            f"{path.name} cannot carry a receipt: components end in .npz, synthetic tables in "
            ".parquet or .arrow, models in .skops, quality summaries in .json"
        )
    checked: Checked | None
    try:
        if kind == _TABLE:
            if path.stat().st_size == 0:
                raise ArtefactError(f"the container: {path.name} is empty")
            checked, own, who = verify_table(path, parties)
        elif kind == _MODEL:
            checked, own, who = verify_model(path.read_bytes(), parties)
        elif kind == _SUMMARY:
            checked = None
            own, who = verify_summary(path.read_bytes(), parties)
        else:
            checked, who, _ = _verified(path.read_bytes(), parties)
            own = checked.document
    except OSError as error:
        raise ArtefactError(f"{path} cannot be read: {error.strerror or error}") from error
    sealed: Sealed = {
        "kind": kind,
        "label": own["label"],
        "sealed_by": f"{who.role.value} {who.name}",
        "authority_checked": parties.checked,
        "software": own["software"],
    }
    claims = _alone(sealed, own) if checked is None else _together(sealed, checked, own)
    deadline = None if checked is None else checked.study.deadline
    certificates = parties.documents(now=now or datetime.now(UTC), deadline=deadline)
    return {**claims, "certificates": certificates}


def read_revoked(path: Path | None, *, ca: bytes | None) -> RevocationList | None:
    """A revocation list in PEM, compared with its authority.

    Raises
    ------
    SettingError
        It cannot be read, or there is no authority to compare it with.
    IdentityError
        It is no list, or not the authority's.
    """
    content = read_authority(path)
    if content is None:
        return None
    if ca is None:
        raise SettingError(
            "a revocation list can be judged only with the authority's certificate: --ca"
        )
    return read_list(content, ca=ca)


def read_authority(path: Path | None) -> bytes | None:
    """PEM of an authority; `SettingError` where the file cannot be read."""
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror}") from error


def verified_result(
    content: bytes, study: Study, *, ca: bytes | None, revoked: RevocationList | None = None
) -> Result:
    """The result of a study, once all that it claims has been checked.

    The guarantee in its header is the one that was computed again, over all owners of the study.

    Parameters
    ----------
    ca
        PEM of the authority that certified the parties.

    Raises
    ------
    ArtefactError, ReceiptError, SignatureError, AlteredError
        As `verify_file`; or the result is of another study.
    """
    checked, _, result = _verified(content, Parties(ca, revoked=revoked))
    if checked.study.digest != study.digest:
        raise ArtefactError("the result is of another study")
    proved = checked.guarantee
    header = replace(
        result.header,
        epsilon=proved["epsilon"],
        delta=proved["delta"],
        assumptions=tuple(proved["assumptions"]),
    )
    return replace(result, header=header)


def verify_components(content: bytes, *, ca: bytes | None) -> tuple[Checked, Identity]:
    """Check a result file; raises as `verify_file` does."""
    checked, who, _ = _verified(content, Parties(ca))
    return checked, who


def _verified(content: bytes, parties: Parties) -> tuple[Checked, Identity, Result]:
    block = read_comment(content)
    checked = check_envelope(_envelope(content), parties)
    try:
        result = result_from_bytes(content, checked.study)
    except ArtefactError as error:
        raise AlteredError(f"the arrays: {error}") from error
    check_result(result, checked)
    who = seal.require_sealed_by_party(
        content,
        block,
        parties,
        what="the container (all arrays and the receipt are as signed)",
    )
    if who != checked.curator:
        raise SignatureError(
            f"the file was sealed by {who.name}, its receipt by {checked.curator.name}"
        )
    return checked, who, result


def _envelope(content: bytes) -> object:
    """The receipt in a result file."""
    members = read_archive(content).members
    if "receipt.npy" not in members:
        raise ReceiptError("the file carries no receipt: it is no result, or of an earlier version")
    text = array_in(members["receipt.npy"]).tobytes()
    if "header.npy" not in members:
        raise AlteredError("array header: missing")
    try:
        envelope: object = json.loads(text)
        sound = canonical_json(envelope) == text
    except (ValueError, RecursionError) as error:
        raise AlteredError("array receipt: it cannot be read") from error
    if not sound:
        raise AlteredError("array receipt: not in canonical form")
    return envelope


def _alone(sealed: Sealed, own: dict[str, Any]) -> Claims:
    """Claims of a model or summary that stands on no components."""
    claims: Claims = {
        "kind": sealed["kind"],
        "label": sealed["label"],
        "sealed_by": sealed["sealed_by"],
        "authority_checked": sealed["authority_checked"],
        "software": sealed["software"],
        "study": None,
        "study_digest": own["study_digest"],
        "schema_digest": own["schema_digest"],
        "guarantee": None,
    }
    if sealed["kind"] == _SUMMARY:
        claims["summary"] = {
            "n_rows": own["n_rows"],
            "mechanism": own["mechanism"],
            "scale": own["scale"],
            "epsilon": own["epsilon"],
            "delta": own["delta"],
            "release_id": own["release_id"],
        }
        return claims
    claims["noise"], claims["model"] = own["noise"], _model(own)
    return claims


def _together(sealed: Sealed, checked: Checked, own: dict[str, Any]) -> Claims:
    """Claims of components, or of a file that was made of them."""
    document = checked.document
    claims: Claims = {
        "kind": sealed["kind"],
        "label": sealed["label"],
        "sealed_by": sealed["sealed_by"],
        "authority_checked": sealed["authority_checked"],
        "software": sealed["software"],
        "study": checked.study.name,
        "study_digest": checked.study.digest,
        "schema_digest": checked.study.table.digest,
        "owners": [
            {
                "owner": each["owner"],
                "rows": each["receipt"]["n_rows"],
                "release_id": each["receipt"]["release_id"],
                "payload_sha256": each["receipt"]["payload_sha256"],
            }
            for each in document["releases"]
        ],
        "missing": document["missing"],
        "guarantee": checked.guarantee,
        "stated_guarantee": document["guarantee"],
        "mechanism": document["mechanism"],
        "countersigned_by": checked.curator.name,
    }
    if sealed["kind"] == _TABLE:
        claims["form"], claims["rows"] = own["form"], own["n_rows"]
        claims["columns"] = len(own["parts"])
    elif sealed["kind"] == _MODEL:
        claims["model"] = _model(own)
    return claims


def _model(own: dict[str, Any]) -> ProvedModel:
    return {
        "method": own["method"],
        "target": own["target"],
        "n_rows": own["n_rows"],
        "epsilon": own["epsilon"],
        "delta": own["delta"],
        "release_id": own["release_id"],
    }


def verification_text(report: Verification, acknowledged: Sequence[Acknowledged] = ()) -> str:
    """What was checked, for people."""
    model = report.get("model")
    lines = [
        f"VERIFIED: {report['kind']} of study {report['study'] or report['study_digest'][:16]}, "
        f"{report['label']}",
        f"  every byte is as {report['sealed_by']} sealed it",
    ]
    if report["guarantee"] is not None:
        lines += _together_lines(report, report["guarantee"])
    if model is not None:
        beside = "" if report["guarantee"] is None else ", on top"
        lines.append(
            f"  {model['method']} for {model['target']}{beside}: epsilon {model['epsilon']}, delta "
            f"{model['delta']}, from {model['n_rows']} rows; computed again from its settings"
        )
    if "summary" in report:
        summary = report["summary"]
        lines.append(
            f"  noised counts of {summary['n_rows']} rows: epsilon {summary['epsilon']}, delta "
            f"{summary['delta']}; computed again from the receipt"
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
    if not report["authority_checked"]:
        lines.append(
            "  NOT CHECKED: who the parties are. Give the authority's certificate with --ca"
        )
    return "\n".join(map(one_line, lines))


def _together_lines(report: Claims, guarantee: ProvedGuarantee) -> list[str]:
    noise = report["mechanism"]
    amount = (
        f"scale {noise['scale']}"
        if noise["scale"] is not None
        else f"variance {noise['sigma_squared']}"
    )
    owners = ", ".join(f"{each['owner']} ({each['rows']} rows)" for each in report["owners"])
    missing, stated = [], report["stated_guarantee"]
    if report["missing"]:
        missing.append(
            f"  took no part, by the curator's word: {', '.join(report['missing'])} (counted in "
            "the guarantee all the same: it cannot be checked that a release was not used)"
        )
    old = []
    if stated != guarantee:
        old.append(
            f"  the file itself states epsilon {stated['epsilon']}, delta {stated['delta']}, over "
            "the owners it names only, as earlier versions did: rely on the guarantee above"
        )
    return [
        f"  receipts signed by: {owners}",
        *missing,
        f"  countersigned by curator {report['countersigned_by']}",
        f"  computed again from the study: {noise['name']} noise, {amount} for L1 {noise['l1']}, "
        f"squared L2 {noise['l2_squared']}, at {noise['resolution_bits']} bits",
        f"  guarantee of the components: epsilon {guarantee['epsilon']}, delta "
        f"{guarantee['delta']}, provided that:",
        *(f"    {assumption}" for assumption in guarantee["assumptions"]),
        *old,
    ]
