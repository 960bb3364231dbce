"""Every file has the label that is in it, once what it claims holds; its name says nothing."""

from pathlib import Path

import pytest

from dppca.common.kernel.privacy.labels import Label
from dppca.owner.commands.page.artefacts import Artefact, Artefacts
from dppca.owner.models.loader import load_model
from dppca.owner.site import ACKNOWLEDGEMENT
from dppca.owner.site.config import load_site
from dppca.owner.synthesis.tables import read_metadata
from tests.support.sites import OwnerSite, make_trained_site

SIGNED = {
    "components.npz",
    "synthetic-coded.parquet",
    "synthetic-decoded.parquet",
    "model-ill-dp-svm.skops",
}
ENVELOPES = {f"{name}.intoto.json" for name in SIGNED}
RELEASED = {*SIGNED, *ENVELOPES, "study.json"}
SITE_ONLY = {"model-ill-linear.skops", "notes.txt"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> OwnerSite:
    """A site with every kind of file."""
    folder = tmp_path_factory.mktemp("every-kind")
    site = make_trained_site(folder / "site", budget='epsilon: "10", delta: "1e-6"')[0]
    train = ("train", "site-test", "--target", "ill", "--method")
    for line in (
        ("synthesize", "site-test", "--rows", "200"),
        (*train, "dppca-svm"),
        (*train, "dp-svm", "--epsilon", "0.5", "--delta", "1e-9", "--yes"),
    ):
        code, document = site.run(*line)
        assert code == 0, document
    (site.folder / "studies/site-test/notes.txt").touch()
    (site.folder / "studies/site-test/.draft").touch()
    return site


def _listed(site: OwnerSite) -> dict[str, Artefact]:
    found = Artefacts(load_site(site.folder)).list("site-test")
    return {each.path.name: each for each in found}


def test_a_file_is_shown_with_the_label_that_is_in_it(made: OwnerSite) -> None:
    listed = _listed(made)
    assert {name for name, each in listed.items() if each.may_leave} == RELEASED
    assert {name for name, each in listed.items() if not each.may_leave} == SITE_ONLY
    assert not [each.wrong for each in listed.values() if each.wrong]
    for name, each in listed.items():
        if name.endswith(".skops"):
            assert each.label is load_model(each.path).label
        elif name.endswith(".parquet"):
            assert each.label.value == read_metadata(each.path)["label"]


@pytest.mark.parametrize("name", sorted(RELEASED))
def test_a_file_that_does_not_verify_must_not_leave(made: OwnerSite, name: str) -> None:
    path = made.folder / "studies/site-test" / name
    before = path.read_bytes()
    listing = Artefacts(load_site(made.folder))
    assert {each.path.name for each in listing.list("site-test") if each.may_leave} == RELEASED
    try:
        path.write_bytes(before[: len(before) // 2] + b"x" + before[len(before) // 2 :])
        found = {each.path.name: each for each in listing.list("site-test")}
        both = {name, name.removesuffix(".intoto.json")} | ENVELOPES & {f"{name}.intoto.json"}
        assert all(found[each].label is Label.SITE_ONLY and found[each].wrong for each in both)
    finally:
        path.write_bytes(before)


def test_a_name_releases_nothing(made: OwnerSite) -> None:
    folder = made.folder / "studies/site-test"
    model = (folder / "model-ill-linear.skops").read_bytes()
    others = "components-2.npz", "model-ill-dp-svm-2.skops", "synthetic-2.parquet", ACKNOWLEDGEMENT
    for other in others:
        path: Path = folder / other
        path.write_bytes(model)
        try:
            assert not _listed(made)[other].may_leave
        finally:
            path.unlink()
