import re
from pathlib import Path

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    enrol(tmp_path / "site", name="owner-1", curator="hub.example:7443")
    return tmp_path / "site"


def test_nothing_is_overwritten(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "request.pem").unlink()
    with pytest.raises(SettingError, match=r"already holds key\.pem, site\.yaml, policy\.yaml"):
        enrol(folder, name="owner-2", curator="hub.example:7443")
    del before["request.pem"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["ledger.sqlite", "ledger.mark", "ledger.mark2"])
def test_no_site_is_made_beside_an_earlier_ones_charges(folder: Path, name: str) -> None:
    for path in folder.iterdir():
        if path.name != name:
            path.unlink()
    with pytest.raises(SettingError, match=f"already holds {re.escape(name)}"):
        enrol(folder, name="owner-1", curator="hub.example:7443")
    assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "curator"),
    [("Owner 1", "hub:1"), ("../x", "hub:1"), ("owner-1", "hub"), ("owner-1", "hub:70000")],
)
def test_a_bad_name_or_address_makes_no_site(tmp_path: Path, name: str, curator: str) -> None:
    with pytest.raises(SettingError):
        enrol(tmp_path / "site", name=name, curator=curator)
    assert not (tmp_path / "site").exists()


def test_a_study_cannot_name_a_folder_outside_the_site(folder: Path) -> None:
    with pytest.raises(SettingError):
        load_site(folder).study_folder("../../etc")


VALIDATORS = re.compile(r"(Input|String) should|Extra inputs|Field required|Value error|pydantic")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a\ncurater: hub.example:1\n", "line 2, site.yaml: .*mean `curator`?"),
        ("name: a\n", "site.yaml: curator is missing"),
        ("version: 0\nname: a\ncurator: hub.example:1\n", "line 1, version: must be 1"),
        ("name: a\ncurator:\n", "line 2, curator: is blank"),
        (
            "name: a\ncurator: hub.example:1\nproxy: p:1\nproxy_login: {env: A, file: b}\n",
            "line 4, proxy_login: give one of env, file",
        ),
    ],
)
def test_a_fault_of_a_sites_settings_is_said_in_our_words_with_its_line(
    folder: Path, text: str, says: str
) -> None:
    (folder / "site.yaml").write_text(text)
    with pytest.raises(SettingError) as refused:
        load_site(folder)
    said = str(refused.value)
    assert re.search(says, said), said
    assert not VALIDATORS.search(said), said
