"""Verify a released file: one entry for all kinds."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import AlteredError, ArtefactError, ReceiptError, SettingError, SignatureError
from common.proof import seal
from common.proof.components import Checked, check_envelope, check_result
from common.proof.models import ZIP_ERRORS, comment_of, verify_model
from common.proof.signatures import require_issued
from common.proof.summaries import verify_summary
from common.proof.tables import verify_table
from common.results import result_from_bytes
from common.schema.document import canonical_json
from common.transport.tls import Identity

_MODEL, _COMPONENTS, _TABLE, _SUMMARY = "model", "components", "synthetic", "summary"
_SUFFIXES = {
    ".npz": _COMPONENTS,
    ".parquet": _TABLE,
    ".arrow": _TABLE,
    ".skops": _MODEL,
    ".json": _SUMMARY,
}


def verify_file(path: Path, *, ca: bytes | None) -> dict[str, Any]:
    """Check every signature, digest and claim of a released file.

    Parameters
    ----------
    ca
        PEM of the authority that certified the parties; None to take the certificates in the file
        as they are, which shows that the file is whole and consistent but not who made it.

    Returns
    -------
    dict
        What was found to hold, as a JSON document.

    Raises
    ------
    ArtefactError
        The file cannot be read, or is none of this software's.
    ReceiptError, SignatureError, AlteredError
        Names the part at fault.
    """
    kind = _SUFFIXES.get(path.suffix)
    if kind is None:
        message = (
            f"{path.name} cannot carry a receipt: components end in .npz, synthetic tables in "
            ".parquet or .arrow, models in .skops, quality summaries in .json"
        )
        raise ArtefactError(message)
    checked: Checked | None
    try:
        if kind == _TABLE:
            if path.stat().st_size == 0:
                message = f"the container: {path.name} is empty"
                raise ArtefactError(message)
            checked, own, who = verify_table(path, ca=ca)
        elif kind == _MODEL:
            checked, own, who = verify_model(path.read_bytes(), ca=ca)
        elif kind == _SUMMARY:
            checked = None
            own, who = verify_summary(path.read_bytes(), ca=ca)
        else:
            checked, who = verify_components(path.read_bytes(), ca=ca)
            own = checked.document
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise ArtefactError(message) from error
    sealed = {
        "kind": kind,
        "label": own["label"],
        "sealed_by": f"{who.role.value} {who.name}",
        "authority_checked": ca is not None,
        "software": own["software"],
    }
    if checked is None:
        return {**sealed, **_alone(kind, own)}
    return {**sealed, **_together(checked), **_own(kind, own)}


def read_authority(path: Path | None) -> bytes | None:
    """PEM of an authority; `SettingError` where the file cannot be read."""
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise SettingError(message) from error


def verify_components(content: bytes, *, ca: bytes | None) -> tuple[Checked, Identity]:
    """Check a result file; raises as `verify_file` does."""
    block = comment_of(content, what="result")
    checked = check_envelope(_envelope(content), ca=ca)
    try:
        result = result_from_bytes(content, checked.study)
    except ArtefactError as error:
        message = f"the arrays: {error}"
        raise AlteredError(message) from error
    check_result(result, checked)
    try:
        who, certificate = seal.require_sealed(content, block)
    except AlteredError as error:
        message = f"the container (all arrays and the receipt are as signed): {error}"
        raise AlteredError(message) from error
    if ca is not None:
        require_issued(certificate, ca, what="the file's seal")
    if who != checked.curator:
        message = f"the file was sealed by {who.name}, its receipt by {checked.curator.name}"
        raise SignatureError(message)
    return checked, who


def _envelope(content: bytes) -> object:
    """The receipt in a result file."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            if "receipt" not in archive.files:
                message = "the file carries no receipt: it is no result, or of an earlier version"
                raise ReceiptError(message)
            text = archive["receipt"].tobytes()
            if "header" not in archive.files:
                message = "array header: missing"
                raise AlteredError(message)
    except ZIP_ERRORS as error:
        message = "the container: the arrays cannot be read"
        raise ArtefactError(message) from error
    try:
        envelope: object = json.loads(text)
        sound = canonical_json(envelope) == text
    except (ValueError, RecursionError) as error:
        message = "array receipt: it cannot be read"
        raise AlteredError(message) from error
    if not sound:
        message = "array receipt: not in canonical form"
        raise AlteredError(message)
    return envelope


def _alone(kind: str, own: dict[str, Any]) -> dict[str, Any]:
    """Of a model or summary that stands on no components."""
    found: dict[str, Any] = {
        "study": None,
        "study_digest": own["study_digest"],
        "schema_digest": own["schema_digest"],
        "guarantee": None,
    }
    if kind == _SUMMARY:
        names = ("n_rows", "mechanism", "scale", "epsilon", "delta", "release_id")
        return {**found, "summary": {name: own[name] for name in names}}
    return {**found, "noise": own["noise"], "model": _model(own)}


def _together(checked: Checked) -> dict[str, Any]:
    """Of the components that a file holds or was made of."""
    document = checked.document
    return {
        "study": checked.study.name,
        "study_digest": checked.study.digest,
        "schema_digest": checked.study.table.digest,
        "owners": [
            {"owner": each["owner"], "rows": each["receipt"]["n_rows"]}
            for each in document["releases"]
        ],
        "missing": document["missing"],
        "guarantee": document["guarantee"],
        "mechanism": document["mechanism"],
        "countersigned_by": checked.curator.name,
    }


def _own(kind: str, own: dict[str, Any]) -> dict[str, Any]:
    """Of a table or model itself."""
    if kind == _TABLE:
        return {"form": own["form"], "rows": own["n_rows"], "columns": len(own["parts"])}
    return {"model": _model(own)} if kind == _MODEL else {}


def _model(own: dict[str, Any]) -> dict[str, Any]:
    names = ("method", "target", "n_rows", "epsilon", "delta", "release_id")
    return {name: own[name] for name in names}


def verification_text(report: dict[str, Any]) -> str:
    """What was checked, for people."""
    model = report.get("model")
    lines = [
        f"VERIFIED: {report['kind']} of study {report['study'] or report['study_digest'][:16]}, "
        f"{report['label']}",
        f"  every byte is as {report['sealed_by']} sealed it",
    ]
    if report["guarantee"] is not None:
        lines += _together_lines(report)
    if model is not None:
        beside = "" if report["guarantee"] is None else ", on top"
        lines.append(
            f"  {model['method']} for {model['target']}{beside}: epsilon {model['epsilon']}, delta "
            f"{model['delta']}, from {model['n_rows']} rows; computed anew from its settings"
        )
    if "summary" in report:
        summary = report["summary"]
        lines.append(
            f"  noised counts of {summary['n_rows']} rows: epsilon {summary['epsilon']}, delta "
            f"{summary['delta']}; computed anew from the receipt"
        )
    if not report["authority_checked"]:
        lines.append(
            "  NOT CHECKED: who the parties are. Give the authority's certificate with --ca"
        )
    return "\n".join(lines)


def _together_lines(report: dict[str, Any]) -> list[str]:
    guarantee, noise = report["guarantee"], report["mechanism"]
    amount = (
        f"scale {noise['scale']}"
        if noise["scale"] is not None
        else f"variance {noise['sigma_squared']}"
    )
    owners = ", ".join(f"{each['owner']} ({each['rows']} rows)" for each in report["owners"])
    return [
        f"  receipts signed by: {owners}",
        f"  countersigned by curator {report['countersigned_by']}",
        f"  computed anew from the study: {noise['name']} noise, {amount} for L1 {noise['l1']}, "
        f"squared L2 {noise['l2_squared']}, at {noise['resolution_bits']} bits",
        f"  guarantee of the components: epsilon {guarantee['epsilon']}, delta "
        f"{guarantee['delta']}, provided that:",
        *(f"    {assumption}" for assumption in guarantee["assumptions"]),
    ]
