import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import (
    ArtefactError,
    NotReadyError,
    SchemaMismatchError,
    SettingError,
    StudyError,
    StudyStateError,
)
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.study import Study
from dppca.owner.client.calls import CuratorClient, StudyProgress
from dppca.owner.site.config import Site
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import keep_study, kept_study, require_same, save
from tests.support.certificates import new_authority
from tests.support.studies import CENSUS, make_study

STUDY = make_study()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, "owner-1", "127.0.0.1:1")


def _with_attributes(*attributes: dict[str, Any]) -> Study:
    return make_study(
        schema={"max_rows_per_person": 1, "resolution_bits": 6, "attributes": list(attributes)}
    )


AGE, SEX, WORK = CENSUS


@pytest.mark.parametrize(
    ("other", "place"),
    [
        (make_study(owners=["owner-1", "owner-2"]), r"in: owners\."),
        (make_study(components={"count": 3}), r"in: components\.count\."),
        (make_study(epsilon="0.5"), r"in: privacy\.epsilon\."),
        (
            make_study(schema={"max_rows_per_person": 1, "attributes": CENSUS}),
            r"in: schema\.resolution_bits\.",
        ),
        (_with_attributes({**AGE, "upper": 91}, SEX, WORK), r"in: attribute age\."),
        (_with_attributes(AGE, WORK), r"attribute sex \(only one side has it\)"),
        (_with_attributes(SEX, AGE, WORK), "the order of the attributes"),
    ],
)
def test_documents_that_differ_are_told_apart_by_field_and_never_by_value(
    other: Study, place: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=place) as caught:
        require_same(other, STUDY, what="your file")
    assert not any(value in str(caught.value) for value in ("0.5", "91", "Female"))


def test_a_study_file_is_a_document_however_it_is_written_or_none(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    for content in (None, b"\xff\xfe", b"name: x\n"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(StudyError):
            study_from_yaml(path)
    path.write_text(yaml.safe_dump(json.loads(STUDY.canonical_bytes())))
    found = study_from_yaml(path)
    require_same(found, STUDY, what="your file")
    assert found.digest == STUDY.digest


def test_the_first_document_seen_under_a_name_is_the_only_one(site: Site) -> None:
    keep_study(site, STUDY)
    keep_study(site, STUDY)
    with pytest.raises(SchemaMismatchError, match="components"):
        keep_study(site, make_study(components={"count": 3}))
    assert kept_study(site, STUDY.name) == STUDY


def test_what_is_not_kept_says_which_command_fetches_it(site: Site) -> None:
    with pytest.raises(NotReadyError, match="dppca-owner components census"):
        kept_study(site, "census")
    with pytest.raises(NotReadyError, match="dppca-owner components census"):
        kept_result(site, STUDY)


def test_a_damaged_document_is_not_used(site: Site) -> None:
    keep_study(site, STUDY)
    path = site.study_folder("census") / "study.json"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtefactError, match="damaged"):
        kept_study(site, "census")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    save(path, b"first")
    save(path, b"second")
    assert path.read_bytes() == b"second"
    with pytest.raises(SettingError, match="cannot make the folder"):
        save(path / "below", b"third")
    assert [each.name for each in path.parent.iterdir()] == ["file"]


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return new_authority().issue(Role.OWNER, "owner-1")


def _client(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch, states: list[StudyState]
) -> tuple[CuratorClient, Callable[[], float], list[float]]:
    """A client whose curator holds each answer back for as long as it may; a clock that says so."""
    asked: list[float] = []

    def progress(_: object, digest: str, *, wait_s: float) -> StudyProgress:
        assert digest == STUDY.digest
        asked.append(wait_s)
        state = states.pop(0) if len(states) > 1 else states[0]
        return StudyProgress(state, (), ("owner-2",), 0, b"", "no more money", ())

    monkeypatch.setattr(CuratorClient, "progress", progress)
    return CuratorClient("127.0.0.1:1", credentials), lambda: sum(asked), asked


def _until(end: float, clock: Callable[[], float]) -> Callable[[], float]:
    return lambda: max(0.0, end - clock())


def test_waiting_asks_in_bounded_pieces_until_the_time_is_up(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, clock, asked = _client(credentials, monkeypatch, [StudyState.OPEN])
    with client, pytest.raises(NotReadyError, match="owner-2"):
        client.wait(STUDY, left=_until(25, clock))
    assert asked == [10, 10, 5]
    client, clock, asked = _client(credentials, monkeypatch, [StudyState.OPEN])
    with client, pytest.raises(NotReadyError):
        client.wait(STUDY)
    assert asked == [0]


def test_waiting_ends_with_a_result_or_with_the_study(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in (StudyState.DECOMPOSED, StudyState.CLOSED):
        client, clock, _ = _client(credentials, monkeypatch, [StudyState.OPEN, state])
        with client:
            assert client.wait(STUDY, left=_until(60, clock)).state is state
    states = [StudyState.OPEN, StudyState.ABORTED]
    client, clock, _ = _client(credentials, monkeypatch, states)
    with client, pytest.raises(StudyStateError, match="no more money"):
        client.wait(STUDY, left=_until(60, clock))
