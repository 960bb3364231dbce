import os
from pathlib import Path

import pytest

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.kernel.errors import ArtefactError, SettingError
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol
from dppca.owner.site.opener_keys import (
    create_opener_key,
    destroy_opener_key,
    list_opener_keys,
    read_opener_key,
)
from tests.support.ledgers import NOW, ledger_files
from tests.support.studies import make_study

STUDY = make_study("small")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    enrol(tmp_path / "site", name="owner-1", curator="127.0.0.1:1")
    return tmp_path / "site" / "openers"


@pytest.fixture
def key(folder: Path) -> OpenerKey:
    made = make_opener_key(SeededEntropy(1))
    create_opener_key(folder, made)
    return made


def test_a_kept_key_is_read_again_and_is_its_owners_alone(folder: Path, key: OpenerKey) -> None:
    assert read_opener_key(folder, key.key_id) == key
    (path,) = folder.iterdir()
    assert (path.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_destroyed_key_was_overwritten_before_its_name_went(folder: Path, key: OpenerKey) -> None:
    (path,) = folder.iterdir()
    link = folder.parent / "link"
    os.link(path, link)
    assert destroy_opener_key(folder, key.key_id)
    assert link.read_bytes() == bytes(96)
    assert not path.exists()
    assert not destroy_opener_key(folder, key.key_id)


def test_a_key_that_was_cut_off_is_no_key_and_one_under_another_name_is_refused(
    folder: Path, key: OpenerKey
) -> None:
    (path,) = folder.iterdir()
    other = make_opener_key(SeededEntropy(2))
    path.write_bytes(other.secret)
    with pytest.raises(ArtefactError, match="another opener key"):
        read_opener_key(folder, key.key_id)
    path.write_bytes(key.secret[:50])
    assert read_opener_key(folder, key.key_id) is None
    assert read_opener_key(folder, other.key_id) is None


def test_a_key_that_cannot_be_destroyed_is_an_error(folder: Path, key: OpenerKey) -> None:
    (folder / f"{key.key_id}.key").unlink()
    (folder / f"{key.key_id}.key").mkdir()
    with pytest.raises(SettingError, match="must not stay"):
        destroy_opener_key(folder, key.key_id)


def test_any_command_destroys_the_key_of_an_opening_that_was_cut_off(
    folder: Path, key: OpenerKey
) -> None:
    site = load_site(folder.parent)
    other = make_opener_key(SeededEntropy(2))
    path, lock = ledger_files(site.folder)
    with open_ledger(path, lock=lock) as ledger:
        ledger.offer(STUDY.name, key.key_id, now=NOW)
        ledger.offer(STUDY.name, other.key_id, now=NOW)
        create_opener_key(folder, other)
        load_site(folder.parent)
        assert len(list_opener_keys(folder)) == 2
        sums = Sums("00" * 32, ((0, bytes(8)),))
        ledger.open_set(STUDY, key.key_id, sums, n_owners=3, now=NOW)
    load_site(folder.parent)
    assert list_opener_keys(folder) == (other.key_id,)


def test_a_ledger_that_cannot_be_read_keeps_no_command_from_saying_so(
    folder: Path, key: OpenerKey
) -> None:
    (folder.parent / "ledger.sqlite").write_bytes(b"no ledger")
    load_site(folder.parent)
    assert list_opener_keys(folder) == (key.key_id,)
