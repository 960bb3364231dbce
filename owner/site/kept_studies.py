"""Files that a site keeps of a study: its document and its components.

A study is named by the digest of its document. The first document a site sees under a name is
kept. If the curator later shows another one, or the steward's own study file differs from it, the
command stops, and the message names the fields at fault, never a value.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from dppca.common.kernel.documents.names import file_part, nearest_name
from dppca.common.kernel.durable.files import writing
from dppca.common.kernel.errors import (
    ArtefactError,
    NotReadyError,
    SchemaMismatchError,
    SettingError,
    StudyError,
)
from dppca.common.kernel.study import Study, differences, study_from_canonical
from dppca.owner.site import ACKNOWLEDGEMENT, STUDIES
from dppca.owner.site.config import Site

if TYPE_CHECKING:
    from dppca.common.kernel.attestation.envelopes import SignedFile


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


def find_continued(site: Site, study: Study) -> Study | None:
    """The study that a study continues, if its document is kept here."""
    if study.continues is None:
        return None
    wanted, names = study.continues.study, kept_names(site)
    name = next((each for each in names if _digest(_document_path(site, each)) == wanted), None)
    return None if name is None else kept_study(site, name)


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
    from dppca.common.kernel.attestation.envelopes import write_signed

    make_folder(path.parent)
    with writing(path):
        write_signed(path, content)


def make_folder(path: Path) -> None:
    """Make a folder if it is missing; raise `SettingError` on failure."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"cannot make the folder {path}: {error.strerror}") from error
