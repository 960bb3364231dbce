"""Verify a result: every signature, digest and claim in the file of a study's components."""

from dataclasses import replace
from pathlib import Path

from dppca.common.kernel.attestation.components import (
    VerifiedReceipt,
    check_components,
    check_result,
)
from dppca.common.kernel.attestation.envelopes import SignedFile, read_envelope, read_stated
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Result, largest_result, result_from_bytes
from dppca.common.kernel.durable.files import read_content
from dppca.common.kernel.errors import AlteredError, ArtefactError, SettingError
from dppca.common.kernel.identity.revoked import RevocationList, read_list
from dppca.common.kernel.study import Study


def read_revoked(path: Path | None, *, ca: bytes | None) -> RevocationList | None:
    """Read a revocation list in PEM and compare it with its authority.

    Raises
    ------
    SettingError
        The list cannot be read, or there is no authority to compare it with.
    IdentityError
        The file is no revocation list, or belongs to another authority.
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
    """Read the certificate of an authority (PEM); `SettingError` if the file cannot be read."""
    return None if path is None else read_content(path)


def verified_result(
    signed: SignedFile, study: Study, *, ca: bytes | None, revoked: RevocationList | None = None
) -> Result:
    """Check all claims of a study's result and return the result.

    The guarantee in its header equals the one computed again over all owners of the study.

    Parameters
    ----------
    ca
        PEM of the authority that certified the parties.

    Raises
    ------
    ArtefactError, ReceiptError, SignatureError, AlteredError
        The errors of `verify_result`; or the result belongs to another study.
    """
    checked, result = verify_result(signed, KnownParties(ca, revoked=revoked))
    if checked.study.digest != study.digest:
        raise ArtefactError("the result belongs to another study")
    return result


def verify_result(signed: SignedFile, parties: KnownParties) -> tuple[VerifiedReceipt, Result]:
    """Check a result file: its envelope and its digest, then what it holds.

    Raises
    ------
    ArtefactError
        The file is not one of this software.
    ReceiptError, SignatureError, AlteredError
        A check failed; the message names the part at fault.
    """
    checked = check_components(signed.envelope, parties)
    checked.statement.require_digest(signed.sha256.hex())
    return checked, _check_arrays(signed, checked)


def verify_result_file(
    path: Path, parties: KnownParties
) -> tuple[VerifiedReceipt, Result, SignedFile]:
    """Check the result file of a stranger as `verify_result`, and return its bytes, too.

    The envelope is checked before the file is opened, and no more of the file is read than a result
    of its study can have. Raise `OSError` if it cannot be read.
    """
    path.stat()  # a file that is missing is said first
    envelope = read_envelope(path)
    checked = check_components(envelope, parties)
    most = largest_result(checked.study)
    signed = SignedFile(read_stated(path, checked.statement, most=most), envelope)
    return checked, _check_arrays(signed, checked), signed


def _check_arrays(signed: SignedFile, checked: VerifiedReceipt) -> Result:
    """Return a result whose bytes are those that were signed."""
    try:
        result = result_from_bytes(signed.content, checked.study)
    except ArtefactError as error:
        raise AlteredError(f"the arrays: {error}") from error
    check_result(result, checked)
    return replace(result, envelope=signed.envelope)
