"""Files that a site keeps of a study, with their labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dppca.common.privacy.labels import Label
from dppca.common.study import Study
from dppca.owner.site.config import Site

_KNOWN = {
    "study.json": ("the study's document", Label.RELEASED),
    "components.npz": ("the joint components", Label.RELEASED),
    "acknowledgement.json": ("the curator's acknowledgement", Label.RELEASED),
    "contradiction.npz": ("a result that leaves this site out", Label.RELEASED),
    "synthetic-coded.parquet": ("synthetic rows, coded", Label.RELEASED),
    "synthetic-decoded.parquet": ("synthetic rows", Label.RELEASED),
}


@dataclass(frozen=True, slots=True)
class Artefact:
    """A file; one that this software does not name is taken for site-only."""

    path: Path
    what: str
    label: Label

    @property
    def may_leave(self) -> bool:
        """Whether it was released."""
        return self.label is Label.RELEASED


def list_artefacts(site: Site, study: Study) -> list[Artefact]:
    """What is in a study's folder, by name."""
    folder = site.study_folder(study.name)
    files = sorted(path for path in folder.glob("[!.]*") if path.is_file())
    return [_describe(path) for path in files]


def _describe(path: Path) -> Artefact:
    if path.name.startswith("model-") and path.suffix == ".skops":
        return Artefact(path, "a classifier: `verify` says whether it may leave", Label.SITE_ONLY)
    what, label = _KNOWN.get(path.name, ("made here", Label.SITE_ONLY))
    return Artefact(path, what, label)
