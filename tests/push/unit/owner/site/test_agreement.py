"""Keys that stewards verify, key files of a site, and what its policy asks of masked sums."""

from pathlib import Path

import pytest

from dppca.common.kernel.errors import (
    IdentityError,
    NoPolicyError,
    PermissionDeniedError,
    SchemaMismatchError,
    SettingError,
)
from dppca.curator.certificates.pki import key_pem
from dppca.owner.records.file_locations import locate_files
from dppca.owner.site.agreement import (
    agree,
    read_peers,
    require_allowed,
    require_said,
    require_verified,
    signing_key,
)
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.enrolment import enrol
from dppca.owner.site.file_forms import AggregateDocument
from dppca.owner.site.policy import DataSet
from tests.support.ledgers import account_of
from tests.support.masked import MaskedStudy, make_masked_study
from tests.support.studies import make_study

MASKED = make_masked_study(4)


def _site(folder: Path, masked: MaskedStudy = MASKED, name: str = "owner-1") -> Site:
    enrol(folder / "site", name=name, curator="127.0.0.1:1")
    (folder / "site" / "key.pem").write_bytes(key_pem(masked.keys[name]))
    return load_site(folder / "site")


def test_a_study_with_trust_owner_needs_no_keys_and_a_digest_is_compared(tmp_path: Path) -> None:
    site, study = _site(tmp_path), make_study("small")
    assert agree(site, study, digest=None) is None
    assert agree(site, study, digest=study.digest) is None
    with pytest.raises(SchemaMismatchError, match="does not have the digest"):
        agree(site, study, digest="0" * 64)
    assert read_peers(site) == {}


def test_a_digest_that_fits_verifies_all_owners_once(tmp_path: Path) -> None:
    site = _site(tmp_path)
    before = agree(site, MASKED.study, digest=None)
    assert before is not None
    assert before.unknown == MASKED.study.owners
    with pytest.raises(SettingError, match="not the curator's operator"):
        require_verified(MASKED.study, before)
    after = agree(site, MASKED.study, digest=MASKED.study.digest)
    assert after is not None
    require_verified(MASKED.study, after)
    assert read_peers(site) == {each.name: each.key for each in MASKED.terms.members}
    again = agree(site, MASKED.study, digest=None)
    assert again is not None
    assert (again.is_verified, again.compared) == (True, False)
    assert site.peers.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", [0, 8, 31, 63])
def test_every_digit_of_a_digest_counts(tmp_path: Path, place: int) -> None:
    site, digest = _site(tmp_path), MASKED.study.digest
    other = "0" if digest[place] != "0" else "1"
    with pytest.raises(SchemaMismatchError):
        agree(site, MASKED.study, digest=digest[:place] + other + digest[place + 1 :])
    with pytest.raises(SettingError, match="64 hexadecimal digits"):
        agree(site, MASKED.study, digest=digest[: place or 1])
    assert read_peers(site) == {}


def test_a_changed_key_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    site, other = _site(tmp_path), make_masked_study(4, seed=1)
    agree(site, MASKED.study, digest=MASKED.study.digest)
    site.key.write_bytes(key_pem(other.keys["owner-1"]))
    kept = site.peers.read_bytes()
    with pytest.raises(IdentityError, match="owner-1, owner-2, owner-3, owner-4"):
        agree(site, other.study, digest=other.study.digest)
    assert site.peers.read_bytes() == kept


def test_another_key_of_this_site_verifies_nobody(tmp_path: Path) -> None:
    site = _site(tmp_path, make_masked_study(4, seed=1))
    with pytest.raises(IdentityError, match="another key of this site"):
        agree(site, MASKED.study, digest=MASKED.study.digest)
    assert read_peers(site) == {}


def test_a_study_that_does_not_name_this_site_is_refused(tmp_path: Path) -> None:
    masked = make_masked_study(5)
    site = _site(tmp_path, masked, "owner-5")
    with pytest.raises(PermissionDeniedError):
        agree(site, MASKED.study, digest=MASKED.study.digest)


@pytest.mark.parametrize("text", ["peers: {owner-1: x}", "peers: [", "peers: {}\nmore: 1", "[]"])
def test_a_file_of_peers_that_is_not_valid_is_refused(tmp_path: Path, text: str) -> None:
    site = _site(tmp_path)
    site.peers.write_text(text)
    with pytest.raises(SettingError, match=r"peers\.yaml"):
        agree(site, MASKED.study, digest=MASKED.study.digest)
    assert site.peers.read_text() == text


def test_an_opener_signs_with_the_key_before_a_renewal_and_with_no_other(tmp_path: Path) -> None:
    site, next_one = _site(tmp_path), make_masked_study(4, seed=1)
    key = signing_key(site, MASKED.terms)
    assert key.private_numbers() == MASKED.keys["owner-1"].private_numbers()
    site.previous.mkdir()
    site.key.replace(site.previous / "key.pem")
    site.key.write_bytes(key_pem(next_one.keys["owner-1"]))
    assert signing_key(site, MASKED.terms).private_numbers() == key.private_numbers()
    (site.previous / "key.pem").unlink()
    with pytest.raises(IdentityError, match="renewed"):
        signing_key(site, MASKED.terms)


def test_a_policy_refuses_what_it_does_not_allow_and_nothing_else(tmp_path: Path) -> None:
    source = locate_files("rows.csv", folder=tmp_path, data_set="survey")
    for rule, reason in (
        (None, "does not mention"),
        (AggregateDocument(colluders=2), "asks for 2"),
        (
            AggregateDocument(colluders=1, trusted_openers=("owner-3", "owner-4")),
            "owner-1, owner-2",
        ),
    ):
        data_set = DataSet("survey", source, account_of(), rule)
        with pytest.raises(NoPolicyError, match=reason):
            require_allowed(MASKED.study, MASKED.terms, data_set)
    for rule in (
        AggregateDocument(colluders=1),
        AggregateDocument(colluders=1, trusted_openers=("owner-4", "owner-2")),
    ):
        require_allowed(MASKED.study, MASKED.terms, DataSet("survey", source, account_of(), rule))


def test_a_policy_refuses_a_study_that_does_not_say_what_it_must(tmp_path: Path) -> None:
    source, silent = (
        locate_files("rows.csv", folder=tmp_path, data_set="survey"),
        make_study("small", contact="the hub"),
    )
    data_set = DataSet("survey", source, account_of(), must_say=("contact", "approval"))
    with pytest.raises(NoPolicyError, match=r"does not say: approval\. .* \(must_say\)"):
        require_said(silent, data_set)
    require_said(make_study("small", contact="the hub", approval="none needed"), data_set)
    require_said(make_study("small"), DataSet("survey", source, account_of()))
