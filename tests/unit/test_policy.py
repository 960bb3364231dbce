from __future__ import annotations

import stat
from decimal import Decimal
from pathlib import Path

import pytest
from cryptography import x509

from common.errors import NoPolicyError, SettingError
from common.transport.tls import Identity, Role, identity_in
from owner.config import Policy, load_policy, load_site
from owner.enrolment import enrol

GOOD = 'data_sets:\n  survey: {path: rows.csv, epsilon: "3.0", delta: "1e-9"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    enrol(tmp_path / "site", name="owner-1", curator="hub.example:7443")
    return tmp_path / "site"


def _policy(folder: Path, text: str) -> Policy:
    (folder / "policy.yaml").write_text(text)
    return load_policy(load_site(folder))


# --- a new site


def test_a_new_site_knows_its_name_and_its_curator(folder: Path) -> None:
    site = load_site(folder)
    assert (site.name, site.curator) == ("owner-1", "hub.example:7443")


def test_a_new_site_has_a_policy_that_releases_nothing(folder: Path) -> None:
    policy = load_policy(load_site(folder))
    assert policy.data_sets == ()
    with pytest.raises(NoPolicyError, match="without a policy there is no release"):
        policy.data_set(None)


def test_only_the_owner_of_the_folder_can_read_the_key(folder: Path) -> None:
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600


def test_the_request_names_the_owner_and_is_signed_by_its_key(folder: Path) -> None:
    request = x509.load_pem_x509_csr((folder / "request.pem").read_bytes())
    assert request.is_signature_valid
    assert identity_in(request) == Identity("owner-1", Role.OWNER)


def test_nothing_is_overwritten(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "request.pem").unlink()
    with pytest.raises(SettingError, match=r"already holds key\.pem, site\.yaml, policy\.yaml"):
        enrol(folder, name="owner-2", curator="hub.example:7443")
    del before["request.pem"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "curator"),
    [("Owner 1", "hub:1"), ("../x", "hub:1"), ("owner-1", "hub"), ("owner-1", "hub:70000")],
)
def test_a_bad_name_or_address_makes_no_site(tmp_path: Path, name: str, curator: str) -> None:
    with pytest.raises(SettingError):
        enrol(tmp_path / "site", name=name, curator=curator)
    assert not (tmp_path / "site").exists()


def test_a_folder_that_is_no_site_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="init --name"):
        load_site(tmp_path)


def test_a_study_cannot_name_a_folder_outside_the_site(folder: Path) -> None:
    with pytest.raises(SettingError):
        load_site(folder).study_folder("../../etc")


# --- the policy


def test_a_policy_names_data_sets_with_exact_budgets(folder: Path) -> None:
    found = _policy(folder, GOOD).data_set("survey")
    assert found.budget.epsilon == Decimal("3.0")
    assert found.budget.delta == Decimal("1e-9")
    assert found.path == folder.resolve() / "rows.csv"


def test_the_only_data_set_need_not_be_named(folder: Path) -> None:
    policy = _policy(folder, GOOD)
    assert policy.data_set(None) == policy.data_set("survey")


def test_one_of_several_data_sets_must_be_chosen(folder: Path) -> None:
    policy = _policy(folder, GOOD + '  other: {path: b.csv, epsilon: "1", delta: "0"}\n')
    with pytest.raises(SettingError, match=r"survey, other\): choose with --data-set"):
        policy.data_set(None)


def test_a_data_set_without_a_policy_is_no_data_set(folder: Path) -> None:
    with pytest.raises(NoPolicyError, match="does not name data set rows"):
        _policy(folder, GOOD).data_set("rows")


def test_a_site_without_a_policy_file_releases_nothing(folder: Path) -> None:
    (folder / "policy.yaml").unlink()
    with pytest.raises(NoPolicyError, match="no release"):
        load_policy(load_site(folder))


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ('{path: a.csv, epsilon: 3.0, delta: "0"}', "epsilon: write the decimal as text"),
        ('{path: a.csv, epsilon: true, delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "nan", delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "0", delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "-1", delta: "0"}', "epsilon"),
        ('{path: a.csv, epsilon: "1", delta: "1"}', "delta"),
        ('{path: a.csv, epsilon: "1"}', "delta"),
        ('{path: "", epsilon: "1", delta: "0"}', "path"),
        ('{path: a.csv, epsilon: "1", delta: "0", extra: 1}', "extra"),
        ('{path: a.csv, epsilon: "1", epsilon: "9", delta: "0"}', "epsilon given twice"),
    ],
)
def test_a_policy_that_is_not_exact_is_refused_by_field(
    folder: Path, fault: str, place: str
) -> None:
    with pytest.raises(SettingError, match=place):
        _policy(folder, f"data_sets:\n  survey: {fault}\n")


@pytest.mark.parametrize("text", ["", "- a\n", "data_sets: {a: 1}\n", "a: [\n", "sets: {}\n"])
def test_a_policy_that_is_no_policy_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(SettingError, match=r"policy\.yaml"):
        _policy(folder, text)
