"""Results that a site keeps: verified, with the study that they continue, and with its own part."""

from dataclasses import replace

from dppca.common.kernel.attestation.envelopes import read_signed
from dppca.common.kernel.attestation.results import Published, Result
from dppca.common.kernel.attestation.verify import read_authority, verified_result
from dppca.common.kernel.errors import (
    AlteredError,
    ArtefactError,
    ContradictionError,
    NotReadyError,
    ReceiptError,
    SignatureError,
)
from dppca.common.kernel.study import Study, require_continues
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Disowning
from dppca.owner.ledger.file import read_history
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import components_path, find_continued


def kept_result(site: Site, study: Study) -> tuple[Result, bytes]:
    """A study's kept result, and the SHA-256 of its file.

    The result of a study that continues another has the other with it. Raise `NotReadyError` if it
    is not kept, or the one that it continues is not; `ArtefactError`, `ReceiptError`,
    `SignatureError` or `AlteredError` if their verification fails
    (`dppca.common.kernel.attestation.verify`): they are not used; `ContradictionError` if they
    leave out this site's contribution.
    """
    path = components_path(site, study.name)
    try:
        signed = read_signed(path)
        result = verified_result(signed, study, ca=read_authority(site.ca))
    except OSError as error:
        raise NotReadyError(
            f"no components of study {study.name} are kept here: run "
            f"`dppca-owner components {study.name}` first"
        ) from error
    except (ArtefactError, ReceiptError, SignatureError, AlteredError) as error:
        raise type(error)(
            f"the components in {path} cannot be used: {error}. Fetch them again: "
            f"`dppca-owner components {study.name}`"
        ) from error
    require_not_left_out(site.name, study, result, read_history(site.ledger))
    if study.continues is not None:
        result = replace(result, first=_kept_first(site, study))
    return result, signed.sha256


def _kept_first(site: Site, study: Study) -> Published:
    """The study that a study continues, with the result that it names."""
    first = find_continued(site, study)
    if first is None:
        raise NotReadyError(
            f"study {study.name} continues another study, which is not kept here: run "
            "`dppca-owner components` for that one first"
        )
    result, sha256 = kept_result(site, first)
    require_continues(first, study, result_sha256=sha256)
    return Published(first, result)


def require_own_release(
    owner: str, study: Study, result: Result, history: History
) -> Disowning | None:
    """Refuse a result that lacks this owner's contribution or has one its ledger does not know.

    Return the ledger's entry if the contribution under this owner's name was disowned: the result
    contains another party's sums, which does not affect the guarantee. Raise `ArtefactError` if the
    ledger does not know the contribution, `ContradictionError` as `require_not_left_out` does.
    """
    require_not_left_out(owner, study, result, history)
    own = history.contribution_for(study.digest)
    share = next((share for share in result.header.shares if share.owner == owner), None)
    if share is None:
        return None
    if own is not None and (own.payload_sha256, own.n_rows) == (share.payload_sha256, share.n_rows):
        return None
    disowned = history.disowned.get(bytes.fromhex(share.release_id))
    if disowned is not None and disowned.study_digest == study.digest:
        return disowned
    raise ArtefactError(
        f"the result of study {study.name} names a contribution of {owner} that this site's ledger "
        "does not contain. If the site sent it and its ledger was lost, run `dppca-owner ledger "
        "recover`; if somebody else used its key, run `dppca-owner ledger recover --disown "
        f"{study.name}`, tell the operator, and change the certificate. Then run this again"
    )


def require_not_left_out(owner: str, study: Study, result: Result, history: History) -> None:
    """Raise `ContradictionError` if the result lacks a contribution that the curator holds."""
    if not history.is_held(study.digest):
        return
    if any(share.owner == owner for share in result.header.shares):
        return
    raise ContradictionError(
        f"the result of study {study.name} leaves out {owner}, whose contribution the curator has "
        "acknowledged: do not use it, and tell the operator and the other owners"
    )
