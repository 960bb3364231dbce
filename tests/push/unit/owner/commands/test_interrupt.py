"""After Ctrl-C the ledger says whether anything was charged, and which command goes on."""

import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.errors import StoreError
from dppca.owner.cli import _CHARGE_NOTHING, COMMANDS
from dppca.owner.commands.interrupt import charges_text, entered_text, report_charges
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Disowning, Recovery
from dppca.owner.ledger.file import read_history
from dppca.owner.site.config import Site
from tests.support.ledgers import NOW, drawn, history_of, ledger_files, request_of
from tests.support.sites import OwnerSite, make_trained_site
from tests.support.studies import make_study

STUDY = make_study("small")
RELEASES = {
    "dp-svm": "train site-test --target ill --method dp-svm --epsilon 0.5 --delta 1e-9 --C 0.02",
    "dp-svm of three": "train site-test --target colour --method dp-svm --epsilon 1",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> OwnerSite:
    folder = tmp_path_factory.mktemp("made") / "site"
    site = make_trained_site(folder, budget='epsilon: "10", delta: "1e-6"')[0]
    assert site.run("synthesize", "site-test", "--rows", "200")[0] == 0
    return site


@pytest.fixture
def site(made: OwnerSite, tmp_path: Path) -> OwnerSite:
    return made.copied_to(tmp_path / "site")


def _interrupt_at(
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    place: str,
    number: signal.Signals = signal.SIGINT,
) -> None:
    def reached(name: str) -> None:
        if name == place:
            signal.raise_signal(number)

    monkeypatch.setattr(f"{module}.checkpoint", reached)


def _stopped(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def _interrupted(answer: tuple[int, Any]) -> str:
    code, document = answer
    assert (code, document["error"]["class"]) == (130, "Interrupted")
    message: str = document["error"]["message"]
    return message


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("release", RELEASES)
def test_what_doctor_prints_after_a_signal_finishes_the_release_without_a_charge(
    site: OwnerSite, release: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = shlex.split(RELEASES[release])
    with monkeypatch.context() as patch:
        _interrupt_at(patch, "dppca.owner.ledger.path", "reserve", number)
        message = _interrupted(site.run(*line, "--yes"))
    charged = site.history
    assert len(charged.reservations) == 1
    assert "was charged to population people (epsilon" in message
    findings = site.run("doctor", "--offline")[1]["findings"]
    [found] = [each["message"] for each in findings if each["state"] == "warning"]
    for text in (message, found):
        printed = re.search(r"run `dppca-owner (.*?)`", text)
        assert printed is not None, text
        again = shlex.split(printed[1])
        assert again[:2] == line[:2]
    code, document = site.run(*again, "--yes")
    assert code == 0, document
    assert site.history.reservations == charged.reservations
    assert len(site.history.commitments) == 1
    findings = site.run("doctor", "--offline")[1]["findings"]
    assert not [each for each in findings if each["state"] == "warning"]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (RELEASES["dp-svm"] + " --yes", "release.run.require_rows_of_people"),
        ("budget", "commands.budget.emit"),
        ("train site-test --target ill", "models.training.train"),
    ],
)
def test_a_command_that_charges_nothing_or_not_yet_says_so_when_it_is_interrupted(
    site: OwnerSite, line: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"dppca.owner.{place}", _stopped)
    message = _interrupted(site.run(*shlex.split(line)))
    assert message == "interrupted: nothing was charged by this command"
    assert site.history == History()


def test_every_command_either_charges_nothing_or_looks_into_the_ledger() -> None:
    looking = {"contribute", "train", "report"}
    elsewhere = {"ledger", "page"}  # settles what was lost; serves until it is interrupted
    assert set(COMMANDS) - elsewhere == looking | set(_CHARGE_NOTHING)


def _steps(folder: Path) -> list[History]:
    """The ledger before a contribution, and after each of its steps."""
    path, lock = ledger_files(folder)
    found = [read_history(path)]
    with open_ledger(path, lock=lock) as ledger:
        reservation = ledger.reserve(request_of(STUDY), release_id=bytes(16), now=NOW)
        found.append(ledger.history())
        ledger.commit(drawn(STUDY, reservation), now=NOW)
        found.append(ledger.history())
        ledger.mark_sent(bytes(16), now=NOW)
        return [*found, ledger.history()]


AGAIN = "run `dppca-owner contribute study-1`"
SAID: dict[str, Callable[[str], bool]] = {
    "nothing": lambda text: text == "nothing was charged by this command",
    "reserved": lambda text: "was kept or sent yet" in text and AGAIN in text,
    "stored": lambda text: "may have arrived" in text and "the same bytes" in text,
    "sent": lambda text: text.endswith("study-1 has arrived at the curator"),
}


def test_every_step_of_a_contribution_is_told_from_the_others(tmp_path: Path) -> None:
    steps = _steps(tmp_path)
    for number, (after, name) in enumerate(zip(steps, SAID, strict=True)):
        text = charges_text(steps[0], after, STUDY.name)
        assert [each for each, right in SAID.items() if right(text)] == [name]
        assert ("study study-1 was charged to population survey (epsilon 1, delta 0)" in text) == (
            number > 0
        )
        assert "nothing was charged" in charges_text(after, after, STUDY.name)
        assert charges_text(steps[0], after, "other").endswith("by this command")


def test_an_error_after_a_charge_says_that_it_stands_and_what_goes_on_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step fails from the state before it; a failure that charged nothing adds no word."""
    site = Site(tmp_path, "owner-1", "hub.example:7443")
    steps, place = _steps(tmp_path), "dppca.owner.commands.interrupt.known_history"
    told = []
    for after, name in zip(steps, SAID, strict=True):
        seen = iter((steps[0], after))
        monkeypatch.setattr(place, lambda _, seen=seen: next(seen))
        with pytest.raises(StoreError) as failed, report_charges(site, STUDY.name):
            raise StoreError("the disk is full.")
        told.append(str(failed.value))
        assert name == "nothing" or SAID[name](told[-1])
    assert told[0] == "the disk is full."
    for said in told[1:]:
        assert said.startswith("the disk is full. study study-1 was charged to population survey")
        assert "this charge stands" in said
    monkeypatch.setattr(place, lambda _: steps[2])
    with (
        pytest.raises(StoreError, match="sends the same bytes at no further charge") as failed,
        report_charges(site, STUDY.name),
    ):
        raise StoreError
    assert "this charge stands" not in str(failed.value), "an earlier command made it"


def test_an_interrupted_recovery_says_what_it_entered() -> None:
    request = request_of(STUDY)
    charged = Recovery(1, "", bytes(16), request, n_rows=5, payload_sha256="")
    refused = Disowning(2, "", bytes([1] * 16), "other", "", "Key stolen.")
    before = History()
    after = history_of(charged, refused)
    assert entered_text(before, before).endswith("nothing was charged")
    assert entered_text(after, after).endswith("nothing was charged")
    text = entered_text(before, after)
    assert "the contribution to other was disowned" in text
    assert "charged to population survey (epsilon 1, delta 0)" in text
    assert text.endswith("charges nothing twice")
    assert "Nobody knows" in entered_text(None, after)


NOT_KNOWN = "`dppca-owner budget` shows whether anything was charged"


@pytest.mark.parametrize(
    ("line", "place", "says"),
    [
        ("contribute site-test", "owner.site.config.load_site", NOT_KNOWN),
        ("train site-test --target ill", "owner.site.config.load_site", NOT_KNOWN),
        ("report site-test", "owner.site.config.load_site", NOT_KNOWN),
        ("ledger recover", "owner.site.config.load_site", NOT_KNOWN),
        (
            "ledger recover",
            "owner.client.calls.connect",
            "nothing was entered in the ledger, and nothing was charged",
        ),
    ],
)
def test_an_interrupt_while_a_command_that_may_charge_begins_promises_no_more_than_is_known(
    site: OwnerSite, line: str, place: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"dppca.{place}", _stopped)
    assert _interrupted(site.run(*line.split())) == f"interrupted: {says}"


def test_a_ledger_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    for before, after in ((None, History()), (History(), None)):
        said = charges_text(before, after, STUDY.name)
        assert "Nobody knows whether anything was charged" in said


def test_an_interrupt_after_the_bytes_were_stored_says_that_the_file_can_be_written(
    site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = shlex.split(RELEASES["dp-svm"])
    with monkeypatch.context() as patch:
        _interrupt_at(patch, "dppca.owner.ledger.path", "commit")
        message = _interrupted(site.run(*line, "--yes"))
    assert "The ledger holds" in message
    assert "writes its file at no further charge" in message
    assert site.run(*line)[1]["already_stored"]
