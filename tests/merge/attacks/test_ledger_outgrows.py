"""A site goes on with an old copy of its ledger until more is released than the lifetime budget.

It can where its ledger has outgrown what the curator has seen.
"""

import shutil
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.study import Study
from dppca.owner.ledger.database import open_ledger
from tests.support.curator import Curator
from tests.support.ledgers import NOW, drawn, ledger_files, request_of
from tests.support.sites import OwnerSite, make_enrolled_site

KILLED = -9
CHAIN, BUDGET, STATE = 48, 21, 44
FILES = ("ledger.sqlite", "ledger.mark", "ledger.mark2")
RECOVER = ("ledger", "recover", "--data-set", "survey", "--yes")


@pytest.fixture
def site(curator: Curator, tmp_path: Path) -> OwnerSite:
    """A site that this curator has never seen, with a lifetime budget of 2."""
    return make_enrolled_site(curator, tmp_path, budget='epsilon: "2.0", delta: "0"')


def _study(curator: Curator, site: OwnerSite, epsilon: str = "0.5", **changes: Any) -> Study:
    return curator.begin(site.name, "absent", epsilon=epsilon, **changes)


def _spend(curator: Curator, site: OwnerSite, number: int) -> list[Study]:
    studies = [_study(curator, site) for _ in range(number)]
    for study in studies:
        assert site.contribute(study)[0] == 0
    return studies


def _lose(site: OwnerSite, *names: str) -> None:
    for name in names or FILES:
        (site.folder / name).unlink()


def _held(curator: Curator, studies: list[Study]) -> int:
    operator = curator.operator()
    return sum(bool(operator.result(study, wait_s=0).contributed) for study in studies)


def _spent(site: OwnerSite) -> Decimal:
    return site.history.total("survey").epsilon


@pytest.mark.parametrize("lost", [FILES[:1], FILES[:2], FILES])
def test_a_lost_ledger_does_not_outgrow_what_the_curator_has_seen(
    curator: Curator, site: OwnerSite, lost: tuple[str, ...]
) -> None:
    spent = _spend(curator, site, 3)
    _lose(site, *lost)
    more = [_study(curator, site, "0.3") for _ in range(6)]
    for study in (*more, *more):
        code, failed = site.contribute(study)
        assert (code, failed["error"]["class"]) == (CHAIN, "ChainError")
        assert "ledger recover" in failed["error"]["message"]
        assert site.history.length == 0, "a locked site keeps nothing"
    assert (_held(curator, spent), _held(curator, more)) == (3, 0)


def test_a_recovered_ledger_has_every_charge_and_admits_no_more_than_is_left(
    curator: Curator, site: OwnerSite
) -> None:
    spent = _spend(curator, site, 3)
    _lose(site)
    code, done = site.run(*RECOVER)
    assert code == 0, done
    assert {each["study"] for each in done["recovered"]} == {study.name for study in spent}
    assert all(each["unproved"] == "" for each in done["recovered"])
    assert _spent(site) == Decimal("1.5")

    before = site.history
    code, done = site.run("ledger", "recover")
    assert (code, done["recovered"]) == (0, []), "again it has no effect"
    assert site.history == before
    code, verified = site.run("budget", "verify")
    assert (code, len(verified["releases"])) == (0, 3)
    code, exported = site.run("budget", "export")
    assert [each["kind"] for each in exported["chain"]] == ["recovered"] * 3
    assert site.run("doctor")[0] == 0

    for study in spent:
        code, failed = site.contribute(study)
        assert (code, failed["error"]["class"]) == (STATE, "StudyStateError")
    assert not site.history.reservations, "what was recovered is not drawn again"
    assert site.contribute(_study(curator, site, "0.6"))[0] == BUDGET
    assert site.contribute(_study(curator, site, "0.5"))[0] == 0
    code, budget = site.run("budget")
    assert budget["populations"][0]["remaining"] == "0"
    assert [each["state"] for each in budget["releases"]].count("recovered") == 3


@pytest.mark.parametrize("step", ["reserve", "commit"])
def test_a_copy_from_the_middle_of_a_release_is_charged_for_it_once(
    curator: Curator, site: OwnerSite, step: str
) -> None:
    study, ledger = _study(curator, site), site.folder / "ledger.sqlite"
    assert site.contribute(study, die_at=step)[0] == KILLED
    middle = ledger.read_bytes()
    assert site.contribute(study)[0] == 0
    sent = site.history.commitment_for(study.digest)
    ledger.write_bytes(middle)
    code, _ = site.contribute(study)
    if step == "reserve":  # its bytes are not here: drawn again, they would be others
        assert code == CHAIN
        assert site.run("ledger", "recover", "--yes")[0] == 0, "the reservation has the data set"
        assert site.contribute(study)[0] == STATE
        assert site.history.commitments == {}
    else:
        assert site.run("ledger", "recover", "--yes")[0] == 0
        assert site.contribute(study)[0] == 0
        assert site.history.commitment_for(study.digest) == sent
    assert _spent(site) == Decimal("0.5")


@pytest.mark.parametrize("step", ["store", "commit", "send"])
def test_a_recovery_killed_at_any_step_charges_once_and_stays_locked_until_it_is_done(
    curator: Curator, site: OwnerSite, step: str
) -> None:
    _spend(curator, site, 2)
    _lose(site)
    more = _study(curator, site)
    assert site.contribute(more)[0] == CHAIN
    assert site.run(*RECOVER, die_at=step)[0] == KILLED
    assert site.history.total("survey").epsilon in (0, Decimal("1.0"))
    assert site.contribute(more)[0] == CHAIN
    assert site.run(*RECOVER)[0] == 0
    assert _spent(site) == Decimal("1.0")
    assert site.contribute(more)[0] == 0


def test_a_second_curator_locks_the_site_until_it_is_recovered_there_too(
    curator: Curator, site: OwnerSite, tmp_path: Path
) -> None:
    other = Curator(tmp_path / "other", authority=curator.authority).start()
    try:
        _spend(curator, site, 1)
        here = (site.folder / "site.yaml").read_text()
        there = here.replace(curator.address, other.address)
        (site.folder / "site.yaml").write_text(there)
        studies = [_study(other, site) for _ in range(2)]
        assert [site.contribute(each)[0] for each in studies] == [0, 0]
        next_there = _study(other, site, "0.1")
        _lose(site)
        assert site.contribute(next_there)[0] == CHAIN
        (site.folder / "site.yaml").write_text(here)
        code, failed = site.run(*RECOVER)
        assert code == CHAIN, "the other curator's contributions are still missing"
        assert studies[0].name in failed["error"]["message"]
        assert site.contribute(_study(curator, site, "0.1"))[0] == CHAIN
        (site.folder / "site.yaml").write_text(there)
        assert site.run(*RECOVER)[0] == 0
        assert _spent(site) == Decimal("1.5")
        assert site.contribute(next_there)[0] == 0
    finally:
        other.stop()


def _components(curator: Curator, site: OwnerSite) -> Study:
    """A study of this owner alone, with its components fetched."""
    study = curator.begin(site.name, epsilon="0.5")
    assert site.contribute(study)[0] == 0
    assert site.run("components", study.name, "--wait", "300")[0] == 0
    return study


def _train(site: OwnerSite, study: Study, epsilon: str = "0.5") -> tuple[int, Any]:
    ask = ("--target", "sex", "--method", "dp-svm", "--epsilon", epsilon, "--yes")
    return site.run("train", study.name, *ask)


def _hide_curator(site: OwnerSite) -> None:
    settings = site.folder / "site.yaml"
    text = settings.read_text()
    address = next(line for line in text.splitlines() if line.startswith("curator:"))
    settings.write_text(text.replace(address, 'curator: "127.0.0.1:1"'))


def test_a_model_needs_no_curator_while_the_ledger_is_as_it_was_left(
    curator: Curator, site: OwnerSite
) -> None:
    study = _components(curator, site)
    _hide_curator(site)
    assert _train(site, study)[0] == 0
    assert _train(site, study, "0.25")[0] == 0


def test_a_ledger_without_its_last_entries_draws_no_model_even_offline(
    curator: Curator, site: OwnerSite
) -> None:
    study, ledger = _components(curator, site), site.folder / "ledger.sqlite"
    old = ledger.read_bytes()
    assert _train(site, study)[0] == 0
    ledger.write_bytes(old)
    _hide_curator(site)
    assert _train(site, study, "0.25")[0] == CHAIN
    assert _train(site, study, "0.25")[0] == CHAIN


def test_a_folder_restored_as_a_whole_draws_nothing_until_its_steward_calls_it_the_newest(
    curator: Curator, site: OwnerSite, tmp_path: Path
) -> None:
    study = _components(curator, site)
    shutil.copytree(site.folder, tmp_path / "restored")
    restored = OwnerSite(tmp_path / "restored", site.name)
    assert _train(site, study)[0] == 0, "which no curator knows"
    reach = (restored.folder / "site.yaml").read_text()
    for _ in range(2):
        code, failed = _train(restored, study, "0.25")
        assert code == CHAIN, "the curator in reach knows nothing of the model"
        assert "restored from a copy" in failed["error"]["message"]
        assert restored.contribute(_study(curator, restored))[0] == CHAIN
        _hide_curator(restored)
        assert _train(restored, study, "0.25")[0] == CHAIN
        (restored.folder / "site.yaml").write_text(reach)
    code, doctor = restored.run("doctor")
    assert code != 0
    assert any("restored from a copy" in each["message"] for each in doctor["findings"])
    assert restored.history.length == 3, "nothing was charged"

    code, done = restored.run("ledger", "recover", "--yes")
    assert (code, done["restored"], done["recovered"]) == (0, True, [])
    assert restored.run("doctor")[0] == 0
    assert _train(restored, study)[0] == 0
    code, done = restored.run("ledger", "recover")
    assert (code, done["restored"]) == (0, False), "there is nothing to ask"


def test_what_an_earlier_version_stored_while_its_ledger_was_lost_is_not_sent_beyond_the_budget(
    curator: Curator, site: OwnerSite
) -> None:
    _spend(curator, site, 3)
    _lose(site)
    study = _study(curator, site, "1.0")
    path, lock = ledger_files(site.folder)
    with open_ledger(path, lock=lock) as ledger:
        identifier = SeededEntropy(1).bytes(16)
        reservation = ledger.reserve(request_of(study), release_id=identifier, now=NOW)
        ledger.commit(drawn(study, reservation), now=NOW)
    _lose(site, *FILES[1:])  # which that version did not write
    assert site.contribute(study)[0] == CHAIN
    assert site.run(*RECOVER)[0] == 0
    assert _spent(site) == Decimal("2.5")
    code, failed = site.contribute(study)
    assert (code, failed["error"]["class"]) == (BUDGET, "BudgetExceededError")
    assert _held(curator, [study]) == 0


@pytest.mark.parametrize(
    "way", ["folder", "lost", "lost ledger", "one mark", "another site's marks"]
)
def test_a_site_from_before_its_first_charge_waits_for_its_steward(
    curator: Curator, site: OwnerSite, tmp_path: Path, way: str
) -> None:
    birth = Path(shutil.copytree(site.folder, tmp_path / "birth"))
    study = _study(curator, site)
    assert site.contribute(study, die_at="commit")[0] == KILLED, "no curator knows of the charge"
    if way == "folder":
        shutil.rmtree(site.folder)
        shutil.copytree(birth, site.folder)
    elif way == "another site's marks":
        other = make_enrolled_site(curator, tmp_path / "other")
        _lose(site)
        for name in FILES[1:]:
            shutil.copy2(other.folder / name, site.folder / name)
    else:
        _lose(site, *{"lost": FILES, "lost ledger": FILES[:1], "one mark": FILES[::2]}[way])
    asked = (
        ("contribute", study.name, "--yes"),
        ("review", study.name),
        ("identity", study.name, "--opener"),
        *(("budget", *tool) for tool in ((), ("verify",), ("export",))),
        ("budget", "plan", "--epsilon", "0.1"),
        ("doctor", "--offline"),
    )
    for line in asked:
        code, document = site.run(*line)
        assert code == CHAIN, line
        if line[0] != "doctor":
            said = document["error"]["message"] if "error" in document else document["locked"]
            assert "ledger recover" in said
    code, done = site.run("ledger", "recover", "--yes")
    assert (code, done["restored"], done["recovered"]) == (0, True, [])
    assert site.contribute(study)[0] == 0
    assert _spent(site) == Decimal("0.5")
    assert site.run("budget", "verify")[0] == 0


def test_a_site_of_an_earlier_version_that_never_charged_has_one_step_to_go_on(
    curator: Curator, site: OwnerSite
) -> None:
    _lose(site)  # which 0.2.0 made by the first command that asked a curator
    study = _study(curator, site)
    code, failed = site.contribute(study)
    assert (code, "version 0.2.0 or older" in failed["error"]["message"]) == (CHAIN, True)
    assert site.run("ledger", "recover", "--yes")[0] == 0
    assert site.contribute(study)[0] == 0


def test_what_backups_change_beside_the_bytes_locks_no_site(
    curator: Curator, site: OwnerSite, tmp_path: Path
) -> None:
    folder = site.folder
    commands = (
        ("cp", "-al", folder, tmp_path / "links"),
        ("chmod", "--recursive", "u+x", folder),
        ("touch", "-a", *(folder / name for name in FILES)),
        ("tar", "--create", "--atime-preserve", "--file", tmp_path / "kept.tar", folder),
        ("cp", "-a", folder, tmp_path / "copy"),
    )
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
        assert site.run("budget")[0] == 0, command
        assert site.contribute(_study(curator, site, "0.1"))[0] == 0, command
    shutil.rmtree(folder)
    (tmp_path / "links").rename(folder)
    assert site.run("budget")[1]["populations"][0]["spent"] == "0.5", "its ledger is the newest"
