"""Files of a study that a site keeps, with their labels.

A file is *released* if it says so and `verify` confirms all its claims; its name proves nothing.
The study's document and the curator's acknowledgement carry no label: they are read, and the
acknowledgement's signature is checked. All other files in the folder must not leave.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from dppca.common.kernel.attestation.contributions import read_acknowledgement
from dppca.common.kernel.attestation.envelopes import SUFFIX, envelope_path
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.verify import read_authority
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.study import study_from_canonical
from dppca.common.verification.files import verify_file
from dppca.common.verification.model_archives import open_archive
from dppca.owner.site import ACKNOWLEDGEMENT
from dppca.owner.site.config import Site

_PAPERS = {
    "study.json": "the study's document, which the curator has too",
    ACKNOWLEDGEMENT: "the curator's acknowledgement, signed by it",
}
"""Files that other parties made and sent; they contain nothing of a row."""
_SAID = {"contradiction.npz": "a result that leaves out what this site contributed"}
_KINDS = {
    ".npz": "the joint components",
    ".parquet": "synthetic rows",
    ".arrow": "synthetic rows",
    ".skops": "a classifier",
}
"""Kinds of files that carry a label, by the suffix of their name."""
Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Artefact:
    """File with its label.

    Attributes
    ----------
    wrong
        Reason why a file that says it is released is not accepted as released; empty otherwise.
    """

    path: Path
    what: str
    label: Label
    wrong: str = ""

    @property
    def may_leave(self) -> bool:
        """Return True if the file was released."""
        return self.label is Label.RELEASED


class Artefacts:
    """Descriptions of a site's files; each file is verified once, and again after a change."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[tuple[Path, Stamp, Stamp], Artefact] = {}

    def list(self, study: str) -> list[Artefact]:
        """Return the files in a study's folder, by name."""
        folder = self._site.study_folder(study)
        files = sorted(path for path in folder.glob("[!.]*") if path.is_file())
        return [self._describe(path) for path in files]

    def _describe(self, path: Path) -> Artefact:
        if path.name.endswith(SUFFIX):
            file = path.with_name(path.name.removesuffix(SUFFIX))
            if file.is_file():
                found = self._describe(file)
                return replace(found, path=path, what=f"the envelope of {file.name}")
        key = (path, stamp(path), stamp(envelope_path(path)))
        if key not in self._known:
            self._known[key] = _describe(path, read_authority(self._site.ca))
        return self._known[key]


def stamp(path: Path) -> Stamp:
    """Return values that change when a file does; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _describe(path: Path, ca: bytes | None) -> Artefact:
    if path.name in _PAPERS:
        return _describe_paper(path, ca)
    if path.suffix not in _KINDS:
        return Artefact(path, "made here", Label.SITE_ONLY)
    what = _SAID.get(path.name, _KINDS[path.suffix])
    try:
        return Artefact(path, what, Label(verify_file(path, ca=ca).label))
    except DppcaError as error:
        label = _model_label(path)
        if label in (None, Label.RELEASED):
            return Artefact(path, what, Label.SITE_ONLY, wrong=str(error))
        return Artefact(path, what, label)


def _describe_paper(path: Path, ca: bytes | None) -> Artefact:
    what = _PAPERS[path.name]
    try:
        if path.name == ACKNOWLEDGEMENT:
            read_acknowledgement(path.read_bytes(), KnownParties(ca))
        else:
            study_from_canonical(path.read_bytes())
    except (DppcaError, OSError) as error:
        return Artefact(path, what, Label.SITE_ONLY, wrong=str(error))
    return Artefact(path, what, Label.RELEASED)


def _model_label(path: Path) -> Label | None:
    """Return the label in a model that carries no receipt; None if there is none."""
    if path.suffix != ".skops":
        return None
    try:
        return Label(str(open_archive(path.read_bytes()).metadata.get("label")))
    except (DppcaError, OSError, ValueError):
        return None
