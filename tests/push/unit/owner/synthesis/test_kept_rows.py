"""What was signed is sent: tables that lie there are not drawn again, and not replaced."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.attestation.envelopes import SUFFIX, envelope_path
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import ConflictError, UnreachableError
from dppca.owner.commands import report, synthesize
from dppca.owner.commands.synthesize import provide_forms
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import kept_study
from tests.support.processors import another_processor
from tests.support.sites import OwnerSite, make_trained_site

FORMS = ("coded", "decoded")


class Curator:
    """Takes one table for each form, as the daemon does; ``reached`` says how often it answers."""

    def __init__(self) -> None:
        self.stored: dict[Form, str] = {}
        self.reached = 99

    def publish(self, _: str, form: Form, stream: Any, **__: Any) -> None:
        if self.reached == 0:
            raise UnreachableError("gone")
        self.reached -= 1
        stream.seek(0)
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if self.stored.setdefault(form, sha256) != sha256:
            raise ConflictError("other rows already")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> OwnerSite:
    return make_trained_site(tmp_path_factory.mktemp("made") / "site")[0]


@pytest.fixture
def site(made: OwnerSite, tmp_path: Path) -> OwnerSite:
    return made.copied_to(tmp_path / "site")


@pytest.fixture
def curator(monkeypatch: pytest.MonkeyPatch) -> Curator:
    curator = Curator()

    @contextmanager
    def connect(_: object) -> Iterator[Curator]:
        yield curator

    monkeypatch.setattr(synthesize, "connect", connect)
    return curator


def draw(site: OwnerSite, *options: str) -> tuple[int, Any]:
    return site.run("synthesize", "site-test", *options)


def content(site: OwnerSite) -> dict[str, bytes]:
    """All files about synthetic rows."""
    folder = site.folder / "studies/site-test"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("synthetic-*")}


def test_published_rows_are_sent_again_from_another_processor(
    site: OwnerSite, curator: Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert draw(site, "--publish", "--rows", "30")[1]["kept"] == []
    before = content(site)
    assert set(before) == {
        f"synthetic-{form}.parquet{e}" for form in FORMS for e in ("", ".intoto.json")
    }
    another_processor(monkeypatch, synthesize)
    code, said = draw(site, "--publish", "--rows", "30")
    assert (code, said["kept"], said["published"]) == (0, [*FORMS], [*FORMS])
    assert said["trace_scale"] > 0
    assert content(site) == before


@pytest.mark.parametrize("accepted", [0, 1])
def test_a_publication_that_was_cut_off_is_ended_with_the_rows_that_were_signed(
    site: OwnerSite, curator: Curator, monkeypatch: pytest.MonkeyPatch, accepted: int
) -> None:
    curator.reached = accepted
    assert draw(site, "--publish", "--rows", "30")[0] == UnreachableError.exit_code
    signed = {Path(name).name: each for name, each in content(site).items()}
    another_processor(monkeypatch, synthesize)
    curator.reached = 99
    assert draw(site, "--publish", "--rows", "30")[1]["kept"] == [*FORMS]
    assert content(site) == signed, "under their names"


def test_rows_are_kept_where_the_curator_has_others(site: OwnerSite, curator: Curator) -> None:
    assert draw(site, "--publish", "--rows", "30")[0] == 0
    before = content(site)
    for _ in range(2):
        assert draw(site, "--publish", "--rows", "40")[0] == ConflictError.exit_code
        assert content(site) == before


def test_rows_that_the_curator_accepts_replace_others(site: OwnerSite, curator: Curator) -> None:
    assert draw(site, "--rows", "30")[0] == 0
    before = content(site)
    curator.reached = 0
    assert draw(site, "--publish", "--rows", "40")[0] != 0
    assert before.items() <= content(site).items()
    curator.reached = 99
    assert draw(site, "--publish", "--rows", "40")[1]["kept"] == [*FORMS]
    after = content(site)
    assert after.keys() == before.keys()
    assert all(after[name] != each for name, each in before.items())
    assert (
        site.run("verify", str(site.folder / "studies/site-test/synthetic-coded.parquet"))[0] == 0
    )


def test_without_publication_other_signed_rows_are_not_replaced(
    site: OwnerSite, tmp_path: Path
) -> None:
    assert draw(site, "--rows", "30", "--form", "decoded")[0] == 0
    before = content(site)
    code, refused = draw(site, "--rows", "40")
    assert code != 0
    assert "holds 30 other rows, which were signed" in refused["error"]["message"]
    assert content(site) == before
    assert draw(site, "--rows", "40", "--output", str(tmp_path / "other"))[0] == 0
    assert draw(site, "--rows", "30")[1]["kept"] == ["decoded"]


def test_replicates_lie_beside_the_rows_and_are_neither_sent_nor_drawn_again(
    site: OwnerSite, curator: Curator
) -> None:
    asked = ("--rows", "30", "--replicates", "4")
    code, said = draw(site, *asked, "--publish")
    assert code == 0
    assert [Path(each).name for each in said["replicates"]] == [
        f"replicate-{number}-of-4.parquet" for number in range(1, 5)
    ]
    assert set(curator.stored) == {*Form}
    times = [Path(each).stat().st_mtime_ns for each in said["replicates"]]
    assert draw(site, *asked)[1]["replicates"] == said["replicates"]
    assert [Path(each).stat().st_mtime_ns for each in said["replicates"]] == times
    for each in said["replicates"]:
        code, verified = site.run("verify", each)
        assert (code, verified["rows"], verified["replicate"]["of"]) == (0, 30, 4)


def test_a_replicate_is_never_taken_for_the_rows(site: OwnerSite) -> None:
    code, said = draw(site, "--rows", "30", "--replicates", "4", "--form", "decoded")
    assert code == 0
    before = content(site)
    rows, replicate = said["forms"]["decoded"], Path(said["replicates"][0])
    for path, other in ((Path(rows), replicate), (Path(rows + SUFFIX), envelope_path(replicate))):
        path.write_bytes(other.read_bytes())
    code, refused = draw(site, "--rows", "30", "--form", "decoded")
    assert code != 0
    assert "other rows, which were signed" in refused["error"]["message"]
    assert content(site) != before


def test_replicates_of_coded_rows_alone_are_refused(site: OwnerSite) -> None:
    code, refused = draw(site, "--replicates", "4", "--form", "coded")
    assert code != 0
    assert "replicates belong to decoded rows" in refused["error"]["message"]


@pytest.mark.parametrize("fault", ["changed", "no envelope", "envelope of the other form"])
def test_a_table_that_is_not_as_it_was_signed_is_drawn_again(site: OwnerSite, fault: str) -> None:
    assert draw(site, "--rows", "30")[0] == 0
    before, path = content(site), site.folder / "studies/site-test/synthetic-coded.parquet"
    if fault == "changed":
        path.write_bytes(path.read_bytes() + b" ")
    elif fault == "no envelope":
        envelope_path(path).unlink()
    else:
        envelope_path(path).write_bytes(before["synthetic-decoded.parquet.intoto.json"])
    assert draw(site, "--rows", "30")[1]["kept"] == ["decoded"]
    assert content(site) == before


def test_a_comparison_on_the_page_takes_the_rows_that_lie_there(
    site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert draw(site, "--rows", "30")[0] == 0
    before = content(site)
    another_processor(monkeypatch, synthesize)
    at = load_site(site.folder)
    study = kept_study(at, "site-test")
    result, sha256 = kept_result(at, study)
    folder = at.study_folder("site-test")
    paths = synthesize.forms_at(folder, synthesize.possible_forms(study))
    tables = provide_forms(at, study, result, sha256, paths, n_rows=None)
    assert [each.drawn for each in tables.values()] == [None, None]
    assert content(site) == before
    assert report.provide_forms is provide_forms
