"""Verify a result: every signature, digest and claim in the file of a study's components."""

from __future__ import annotations

import json
from pathlib import Path

from dppca.common.attestation import seal
from dppca.common.attestation.archives import Archive, array_in, read_archive
from dppca.common.attestation.components import Checked, check_envelope, check_result
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.results import Result, result_from_bytes
from dppca.common.errors import (
    AlteredError,
    ArtefactError,
    ReceiptError,
    SettingError,
    SignatureError,
)
from dppca.common.schema.document import canonical_json
from dppca.common.study import Study
from dppca.common.transport.revoked import RevocationList, read_list
from dppca.common.transport.tls import Identity


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

    The guarantee in its header is that over all owners of the study, as it was computed again.

    Parameters
    ----------
    ca
        PEM of the authority that certified the parties.

    Raises
    ------
    ArtefactError, ReceiptError, SignatureError, AlteredError
        As `verify_components`; or the result is of another study.
    """
    checked, _, result = verify_result(content, KnownParties(ca, revoked=revoked))
    if checked.study.digest != study.digest:
        raise ArtefactError("the result is of another study")
    return result


def verify_components(
    content: bytes, *, ca: bytes | None, revoked: RevocationList | None = None
) -> tuple[Checked, Identity]:
    """Check a result file, and say who sealed it.

    Raises
    ------
    ArtefactError
        The file is none of this software's.
    ReceiptError, SignatureError, AlteredError
        Names the part at fault.
    """
    checked, who, _ = verify_result(content, KnownParties(ca, revoked=revoked))
    return checked, who


def verify_result(content: bytes, parties: KnownParties) -> tuple[Checked, Identity, Result]:
    """As `verify_components`; the result, too."""
    archive = read_archive(content)
    for name in archive.damaged():
        raise AlteredError(f"array {name.removesuffix('.npy')}: it does not have its checksum")
    checked = check_envelope(_envelope(archive), parties)
    try:
        result = result_from_bytes(content, checked.study)
    except ArtefactError as error:
        raise AlteredError(f"the arrays: {error}") from error
    check_result(result, checked)
    who = seal.require_sealed_by_party(
        content,
        archive.comment or None,
        parties,
        what="the container (all arrays and the receipt are as signed)",
    )
    if who != checked.curator:
        raise SignatureError(
            f"the file was sealed by {who.name}, its receipt by {checked.curator.name}"
        )
    return checked, who, result


def _envelope(archive: Archive) -> object:
    """The receipt in a result file."""
    members = archive.members
    if "receipt.npy" not in members:
        raise ReceiptError("the file carries no receipt: it is no result")
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
