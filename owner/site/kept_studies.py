"""Files that a site keeps of a study: its document and its components.

A study is named by the digest of its document. The first document a site sees under a name is
kept. If the curator later shows another one, or the steward's own study file differs from it, the
command stops, and the message names the fields at fault, never a value.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

from dppca.common.kernel.attestation.envelopes import SignedFile, read_signed, write_signed
from dppca.common.kernel.attestation.results import Published, Result
from dppca.common.kernel.attestation.verify import read_authority, verified_result
from dppca.common.kernel.documents.names import file_part, nearest_name
from dppca.common.kernel.durable.files import writing
from dppca.common.kernel.errors import (
    AlteredError,
    ArtefactError,
    ContradictionError,
    NotReadyError,
    ReceiptError,
    SchemaMismatchError,
    SettingError,
    SignatureError,
    StudyError,
)
from dppca.common.kernel.study import Study, differences, require_continues, study_from_canonical
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Disowning
from dppca.owner.ledger.file import read_history
from dppca.owner.site.config import STUDIES, Site

ACKNOWLEDGEMENT = "acknowledgement.json"


def require_same(ours: Study, theirs: Study, *, what: str) -> None:
    """Raise `SchemaMismatchError`, naming every field that differs, unless both are equal."""
    if ours.digest == theirs.digest:
        return
    raise SchemaMismatchError(
        f"{what} differs from the curator's document of study {theirs.name} in: "
        f"{differences(ours, theirs)}. Agree on one document with the operator"
    )


def keep_study(site: Site, study: Study) -> None:
    """Keep a study's document; `SchemaMismatchError` if another one is kept under its name."""
    path = _document_path(site, study.name)
    if not path.exists():
        save(path, study.canonical_bytes())
    elif _digest(path) != study.digest:
        require_same(kept_study(site, study.name), study, what=f"the document kept in {path}")


def kept_names(site: Site) -> list[str]:
    """Names of the studies that the site keeps."""
    return [each.parent.name for each in (site.folder / STUDIES).glob("*/study.json")]


def kept_study(site: Site, name: str) -> Study:
    """A study's kept document.

    Raise `NotReadyError` if none is kept, `ArtefactError` if it is damaged.
    """
    path = _document_path(site, name)
    try:
        return study_from_canonical(path.read_bytes())
    except FileNotFoundError as error:
        near = nearest_name(name, kept_names(site))
        meant = "" if near is None else f"; or did you mean {near}?"
        raise NotReadyError(
            f"nothing of study {name} is kept here: run `dppca-owner components {name}` first"
            f"{meant}"
        ) from error
    except (OSError, StudyError) as error:
        raise ArtefactError(
            f"{path} is damaged: move it away, then run the command again"
        ) from error


def components_path(site: Site, name: str) -> Path:
    """Default path of a study's result file."""
    return site.study_folder(name) / "components.npz"


def acknowledgement_path(site: Site, name: str) -> Path:
    """Path of the curator's signed acknowledgement of this site's contribution."""
    return site.study_folder(name) / ACKNOWLEDGEMENT


def decoded_path(site: Site, name: str) -> Path:
    """Path of the decoded rows that `synthesize` writes."""
    return site.study_folder(name) / "synthetic-decoded.parquet"


def model_path(site: Site, name: str, target: str, kind: str) -> Path:
    """Default path of a study's model.

    ``target`` is the attribute's name, chosen by the study's author, so
    `dppca.common.kernel.documents.names.file_part` encodes it; ``kind`` is this software's word for
    the kind of model.
    """
    return site.study_folder(name) / f"model-{file_part(target)}-{kind}.skops"


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


def find_continued(site: Site, study: Study) -> Study | None:
    """The study that a study continues, if its document is kept here."""
    if study.continues is None:
        return None
    wanted, names = study.continues.study, kept_names(site)
    name = next((each for each in names if _digest(_document_path(site, each)) == wanted), None)
    return None if name is None else kept_study(site, name)


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


def _document_path(site: Site, name: str) -> Path:
    return site.study_folder(name) / "study.json"


def _digest(path: Path) -> str | None:
    """SHA-256 of a file, in hexadecimal; None if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def save(path: Path, content: bytes | SignedFile) -> None:
    """Write a file atomically, after its envelope; raise `SettingError` on failure."""
    make_folder(path.parent)
    with writing(path):
        write_signed(path, content)


def make_folder(path: Path) -> None:
    """Make a folder if it is missing; raise `SettingError` on failure."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot make the folder {path}: {error.strerror}") from error
