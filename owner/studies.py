"""What a site keeps of a study: its document, its components, and whether both sides agree.

A study is named by the digest of its document. The first document a site sees under a name is
kept; if the curator later shows another one, or the steward's own study file differs from it,
nothing goes on, and the message names the fields at fault, never a value.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.errors import (
    ArtefactError,
    NotReadyError,
    SchemaMismatchError,
    SettingError,
    StudyError,
)
from common.results import Result, result_from_bytes
from common.study import Study, study_from_canonical, study_from_yaml
from owner.config import Site

_SHOWN = 8


def study_from_file(path: Path) -> Study:
    """Read a study file (YAML); `StudyError` where it cannot be read or is not valid."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        message = f"cannot read the study file {path}: {reason}"
        raise StudyError(message) from error
    return study_from_yaml(text)


def require_same(ours: Study, theirs: Study, *, what: str) -> None:
    """Raise `SchemaMismatchError`, naming every field that differs, unless two studies are one."""
    if ours.digest == theirs.digest:
        return
    places = list(_differences(ours.model_dump(by_alias=True), theirs.model_dump(by_alias=True)))
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    message = (
        f"{what} differs from the curator's document of study {theirs.name} in: "
        f"{', '.join(places[:_SHOWN])}{more}. Agree on one document with the operator"
    )
    raise SchemaMismatchError(message)


def keep_study(site: Site, study: Study) -> None:
    """Keep a study's document; `SchemaMismatchError` if another one is kept under its name."""
    path = site.study_folder(study.name) / "study.json"
    if path.exists():
        kept = kept_study(site, study.name)
        require_same(kept, study, what=f"the document kept in {path}")
        return
    save(path, study.canonical_bytes())


def kept_study(site: Site, name: str) -> Study:
    """A study's document as it is kept.

    Raises
    ------
    NotReadyError
        None is kept.
    ArtefactError
        It is damaged.
    """
    path = site.study_folder(name) / "study.json"
    try:
        return study_from_canonical(path.read_bytes())
    except FileNotFoundError as error:
        message = f"nothing of study {name} is kept here: run `dppca-owner components {name}` first"
        raise NotReadyError(message) from error
    except (OSError, StudyError) as error:
        message = f"{path} is damaged: move it away, then run the command again"
        raise ArtefactError(message) from error


def components_path(site: Site, name: str) -> Path:
    """Where a study's result file is kept unless another place is asked for."""
    return site.study_folder(name) / "components.npz"


def kept_result(site: Site, study: Study) -> tuple[Result, bytes]:
    """A study's components as they are kept, and the SHA-256 of their file.

    Raises
    ------
    NotReadyError
        None are kept.
    ArtefactError
        They are damaged or of another study.
    """
    path = components_path(site, study.name)
    try:
        content = path.read_bytes()
    except OSError as error:
        message = (
            f"no components of study {study.name} are kept here: run "
            f"`dppca-owner components {study.name}` first"
        )
        raise NotReadyError(message) from error
    return result_from_bytes(content, study), hashlib.sha256(content).digest()


def save(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; `SettingError` where that is not possible."""
    make_folder(path.parent)
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise SettingError(message) from error


def make_folder(path: Path) -> None:
    """Make a folder where there is none; `SettingError` where that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {path}: {error.strerror}"
        raise SettingError(message) from error


def _differences(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Places where two documents differ; attributes go by their name."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            yield from _differences(ours.get(key), theirs.get(key), f"{place}.{key}".lstrip("."))
    elif place == "schema.attributes":
        yield from _attribute_differences(ours, theirs)
    elif ours != theirs:
        yield place


def _attribute_differences(ours: Any, theirs: Any) -> Iterator[str]:
    mine, other = ({each["name"]: each for each in side} for side in (ours, theirs))
    for name in sorted({*mine, *other}):
        if name not in mine or name not in other:
            yield f"attribute {name} (only one side has it)"
        elif mine[name] != other[name]:
            yield f"attribute {name}"
    if list(mine) != list(other) and set(mine) == set(other):
        yield "the order of the attributes"
