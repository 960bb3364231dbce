"""What this software does not know by name is not for others."""

from __future__ import annotations

from pathlib import Path

from dppca.owner.commands.page.artefacts import list_artefacts
from dppca.owner.site.config import Site
from tests.support.census import make_study


def test_files_have_labels_and_an_unknown_one_must_not_leave(tmp_path: Path) -> None:
    study = make_study()
    folder = tmp_path / "studies" / study.name
    folder.mkdir(parents=True)
    names = ("components.npz", "report.html", "model-sex-linear.skops", "notes.txt", ".draft")
    for name in names:
        (folder / name).touch()
    site = Site(tmp_path, "owner-1", "127.0.0.1:1")
    found = {each.path.name: each.may_leave for each in list_artefacts(site, study)}
    assert found == {
        "components.npz": True,
        "report.html": False,
        "model-sex-linear.skops": False,
        "notes.txt": False,
    }
