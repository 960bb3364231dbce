"""An owner's commands against a real curator."""

import io
import json
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pyreadstat
import pytest

import dppca
from dppca.common.kernel.errors import BudgetExceededError, ChainError, StudyStateError
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.owner.client.calls import CuratorClient
from dppca.owner.commands import synthesize
from dppca.owner.commands.consent import Terminal
from dppca.owner.commands.contribute import ContributionOptions, contribute
from dppca.owner.ledger.file import read_history
from dppca.owner.records.statistical import MAGIC
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_studies import keep_study
from dppca.owner.site.policy import load_policy
from tests.support.curator import Curator
from tests.support.processors import another_processor
from tests.support.sites import OwnerSite, error_of, make_enrolled_site


def _fails(answer: tuple[int, Any]) -> tuple[int, str, str]:
    code, document = answer
    return code, document["error"]["class"], document["error"]["message"]


class _Terminal(io.StringIO):
    """A steward who types what this holds."""

    def isatty(self) -> bool:
        return True


def test_a_review_shows_what_would_leave_and_leaves_no_trace(site: OwnerSite, study: Study) -> None:
    code, found = site.run("review", study.name)
    assert code == 0
    assert (found["rows"], found["entries"]) == (200, study.table.layout.n_entries)
    assert found["bytes"] == 8 * found["entries"]
    assert (found["epsilon"], found["charged_epsilon"], found["charged_rho"]) == ("1", "1", "0")
    assert (found["budget"]["remaining_before"], found["budget"]["remaining_after"]) == ("3", "2")
    assert found["forecast"]["noise_edge"] > 0
    assert site.history.length == 0


def test_a_steward_who_declines_is_charged_nothing(
    site: OwnerSite, monkeypatch: pytest.MonkeyPatch, study: Study
) -> None:
    code, name, message = _fails(site.run("contribute", study.name))
    assert (code, name) == (24, "ConsentError")
    assert "--yes" in message, "without a terminal consent has to be given beforehand"
    monkeypatch.setattr(sys, "stdin", _Terminal("n\n"))
    assert _fails(site.run("contribute", study.name))[:2] == (24, "ConsentError")
    assert site.history.length == 0


def _doctor(site: OwnerSite, area: str) -> tuple[int, list[dict[str, Any]]]:
    code, document = site.run("doctor")
    return code, [each for each in document["findings"] if each["area"] == area]


def test_every_command_says_what_contribute_would_refuse_and_no_proposal_breaks_a_site(
    curator: Curator, site: OwnerSite
) -> None:
    (site.folder / "key.pem").chmod(0o600)
    fits = curator.begin(site.name)
    dear = curator.begin(site.name, epsilon="9")
    small = curator.begin(site.name, max_rows=100)
    noise = curator.begin(site.name, mechanism="gaussian", delta="1e-6")
    code, found = _doctor(site, "data")
    assert code == 0
    findings = {name: each for each in found for name in each["message"].replace(":", "").split()}
    next_steps = {each["name"]: each["next"] for each in site.run("studies")[1]["studies"]}
    for study, state in ((dear, "info"), (small, "info"), (noise, "info"), (fits, "ok")):
        assert findings[study.name]["state"] == state
        reviewed, review = site.run("review", study.name)
        code, answer = site.contribute(study)
        assert reviewed == code
        if study is fits:
            assert (code, review["refused"]) == (0, None)
            assert "`dppca-owner review" in next_steps[study.name]
            continue
        message = answer["error"]["message"]
        assert review["refused"] == message
        assert message in findings[study.name]["message"]
        covered = study is small  # by the budget: how many rows there are is not looked at
        assert (message in next_steps[study.name]) is not covered
    assert "delta 0, at which they have no finite epsilon" in next_steps[noise.name]


def test_a_policy_that_asks_for_words_refuses_a_study_that_lacks_one(
    curator: Curator, site: OwnerSite
) -> None:
    policy = (site.folder / "policy.yaml").read_text()
    asked = policy.replace("path: rows.csv", "path: rows.csv, must_say: [contact, approval]")
    (site.folder / "policy.yaml").write_text(asked)
    silent = curator.begin(site.name, contact="the hub")
    message = site.contribute(silent)[1]["error"]["message"]
    assert "does not say: approval." in message
    code, review = site.run("review", silent.name)
    assert (code, review["refused"]) == (20, message)
    assert site.history.length == 0
    told = curator.begin(site.name, contact="the hub", approval="none needed")
    assert site.contribute(told)[0] == 0


def test_doctor_warns_of_a_spreadsheets_file_and_a_format_draws_nothing_again(
    curator: Curator, site: OwnerSite
) -> None:
    (site.folder / "key.pem").chmod(0o600)
    rows = site.folder / "rows.csv"
    rows.write_text(rows.read_text().replace(",", ";"))
    study = curator.begin(site.name)
    code, message = site.contribute(study)
    assert (code, "is separated by semicolons" in json.dumps(message)) == (13, True)
    _, found = _doctor(site, "data")
    (warning,) = (each["message"] for each in found if each["state"] == "warning")
    assert warning.endswith('in data set survey:\n      format: {delimiter: ";"}')
    policy = (site.folder / "policy.yaml").read_text()
    for line in ('{delimiter: ";"}', '{delimiter: ";", decimal: ","}'):
        text = policy.replace("path: rows.csv", f"path: rows.csv, format: {line}")
        (site.folder / "policy.yaml").write_text(text)
        code, answer = site.contribute(study)
        assert code == 0, answer
        charges = [
            each.request.request_digest
            for each in read_history(site.folder / "ledger.sqlite").charges
        ]
        assert charges == [study.digest], "one study, one release: its bytes are sent again"


def test_doctor_is_content_where_one_of_several_data_sets_is_possible(
    curator: Curator, site: OwnerSite
) -> None:
    (site.folder / "key.pem").chmod(0o600)
    (site.folder / "more.csv").write_bytes((site.folder / "rows.csv").read_bytes())
    site.state_policy(
        [PATIENTS, 'staff: {who: All staff, epsilon: "9", delta: "0"}'],
        [
            "survey: {population: patients, path: rows.csv}",
            "more: {population: staff, path: more.csv}",
        ],
    )
    study = curator.begin(site.name, epsilon="5")
    code, [found] = _doctor(site, "data")
    assert code == 0
    assert f"waiting for this site: {study.name}" in json.dumps(site.run("doctor")[1])
    assert found["message"] == f"study {study.name} can be served by more (200 rows)"


def test_every_command_names_the_hosts_of_a_certificate_that_is_for_others(
    curator: Curator, site: OwnerSite
) -> None:
    (site.folder / "key.pem").chmod(0o600)
    study = curator.begin(site.name)
    with (site.folder / "site.yaml").open("a") as file:
        file.write("server_name: hub.example\n")
    code, [found] = _doctor(site, "connection")
    answers = [site.run(*line) for line in (["review", study.name], ["components", study.name])]
    answers.append(site.contribute(study))
    assert {code, *(each[0] for each in answers)} == {41}
    for said in (found["message"], *(each[1]["error"]["message"] for each in answers)):
        assert f"{curator.address} is for localhost, 127.0.0.1, not for hub.example" in said
        assert "doctor" not in said


def test_a_study_file_that_differs_is_refused_by_the_field_that_does(
    site: OwnerSite, study: Study
) -> None:
    file = site.folder / "mine.yaml"
    file.write_bytes(study.canonical_bytes())  # JSON is YAML
    assert site.run("review", study.name, "--study-file", str(file))[0] == 0
    file.write_bytes(study.model_copy(update={"max_rows": 999}).canonical_bytes())
    for command in (["review"], ["contribute", "--yes"]):
        code, name, message = _fails(site.run(*command, study.name, "--study-file", str(file)))
        assert (code, name, "max_rows" in message) == (12, "SchemaMismatchError", True)


def test_a_study_that_does_not_name_this_owner_is_no_study(
    curator: Curator, site: OwnerSite, tmp_path: Path
) -> None:
    other = curator.begin(make_enrolled_site(curator, tmp_path).name)
    for name in (other.name, "absent"):
        code, error, message = _fails(site.run("contribute", name, "--yes"))
        assert (code, error) == (43, "UnknownStudyError")
        assert "lists those that name this owner" in message


def test_a_contribution_reads_prices_and_keeps_its_study_once_and_its_policy_once(
    site: OwnerSite, study: Study
) -> None:
    assert site.run("review", study.name)[0] == 0  # the document is kept from now on
    once = [study_from_mapping, calibrate, keep_study, CuratorClient.study, load_policy]
    counted = dict.fromkeys([each.__code__ for each in once], 0)

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in counted:
            counted[frame.f_code] += 1

    sys.setprofile(count)
    try:
        _contribute_while(site, study, lambda: None)
    finally:
        sys.setprofile(None)
    assert {code.co_name: number for code, number in counted.items()} == dict.fromkeys(
        [each.__name__ for each in once], 1
    )


def test_a_study_that_ends_while_the_steward_is_asked_costs_nothing(
    curator: Curator, site: OwnerSite, study: Study
) -> None:
    with pytest.raises(StudyStateError, match="aborted and takes no contribution any more"):
        _contribute_while(site, study, lambda: curator.operator().abort(study.name))
    assert site.history.length == 0


def _contribute_while(site: OwnerSite, study: Study, happens: Callable[[], object]) -> None:
    """Contribute as a steward who agrees once something has happened."""

    class Slow(Terminal):
        def require_consent(self, *shown: Any) -> bool:
            happens()
            return super().require_consent(*shown)

    steward = Slow(yes=True, quiet=True)
    contribute(load_site(site.folder), ContributionOptions(study.name), steward)


def _cut(content: bytes) -> bytes:
    return content[:-41]


def _more_rows(content: bytes) -> bytes:
    place = content.find(b"<N>") + 3 if content.startswith(b"<stata") else 80
    (n,) = struct.unpack_from("<i", content, place)
    return content[:place] + struct.pack("<i", n + 1) + content[place + 4 :]


def _long_name(content: bytes) -> bytes:
    """The record of long names of a .sav with one of 64 kB."""
    place = content.index(struct.pack("<iii", 7, 13, 1)) + 12
    (size,) = struct.unpack_from("<i", content, place)
    name = content[place + 4 :].split(b"=")[0] + b"=" + b"x" * 65_536
    return content[:place] + struct.pack("<i", len(name)) + name + content[place + 4 + size :]


def test_damaged_files_of_statistical_programs_are_refused_and_charge_nothing(
    curator: Curator, site: OwnerSite
) -> None:
    first, second = (curator.begin(site.name, epsilon="0.1") for _ in range(2))
    policy, frame = site.folder / "policy.yaml", pd.read_csv(site.folder / "rows.csv")

    def name_file(suffix: str) -> Path:
        policy.write_text(re.sub(r"rows\.\w+", f"rows.{suffix}", policy.read_text()))
        return site.folder / f"rows.{suffix}"

    pyreadstat.write_sav(frame, name_file("dta").with_suffix(".sav"))
    pyreadstat.write_dta(frame, site.folder / "rows.dta")
    pyreadstat.write_xport(frame, site.folder / "rows.xpt", file_format_version=8)
    (site.folder / "rows.sas7bdat").write_bytes(MAGIC["sas7bdat"][0] + bytes(1000))
    assert site.contribute(first)[0] == 0
    ledger = (site.folder / "ledger.sqlite").read_bytes()
    hostile = [(kind, _cut) for kind in ("sav", "dta", "xpt", "sas7bdat")]
    hostile += [("sav", _more_rows), ("dta", _more_rows), ("sav", _long_name)]
    for kind, spoil in hostile:
        path = name_file(kind)
        sound = path.read_bytes()
        path.write_bytes(spoil(sound))
        code, name, message = _fails(site.contribute(second))
        assert (code, name) == (13, "DataError"), (kind, spoil)
        assert ("damaged" if spoil is not _long_name else "column") in message, (kind, spoil)
        assert (site.folder / "ledger.sqlite").read_bytes() == ledger
        path.write_bytes(sound)
    name_file("sav")
    assert site.contribute(second)[0] == 0, "the sound file is still contributed"


def test_another_process_that_charges_while_the_steward_is_asked_leaves_less_of_the_budget(
    curator: Curator, site: OwnerSite
) -> None:
    study, other = (curator.begin(site.name, epsilon=epsilon) for epsilon in ("1.5", "2"))

    def charge() -> None:
        site.contribute(other, die_at="acknowledge")

    with pytest.raises(BudgetExceededError, match="2 is spent"):
        _contribute_while(site, study, charge)
    assert site.history.total("survey").epsilon == 2

    def draw() -> None:
        site.contribute(third, die_at="draw")

    third = curator.begin(site.name, epsilon="1")
    _contribute_while(site, third, draw)
    assert site.history.total("survey").epsilon == 3, "one charge for both commands"


def test_a_ledger_that_is_swapped_while_the_steward_is_asked_is_charged_nothing(
    curator: Curator, site: OwnerSite
) -> None:
    first, second, third = (curator.begin(site.name, epsilon="0.1") for _ in range(3))
    ledger = site.folder / "ledger.sqlite"
    assert site.contribute(first)[0] == 0
    old = ledger.read_bytes()
    assert site.contribute(second)[0] == 0

    def swap() -> None:
        copy = site.folder / "copy"
        copy.write_bytes(old)
        copy.chmod(0o600)
        copy.replace(ledger)

    with pytest.raises(ChainError, match="not the one this site used last"):
        _contribute_while(site, third, swap)
    assert ledger.read_bytes() == old


def test_components_come_once_everybody_has_contributed(
    curator: Curator, site: OwnerSite, tmp_path: Path
) -> None:
    other = make_enrolled_site(curator, tmp_path)
    study = curator.begin(site.name, other.name)
    assert site.contribute(study)[0] == 0
    code, name, message = _fails(site.run("components", study.name, "--wait", "0.2"))
    assert (code, name) == (50, "NotReadyError")
    assert other.name in message
    assert other.contribute(study)[0] == 0
    copy = tmp_path / "copies" / "components.npz"
    code, found = site.run("components", study.name, "--wait", "300", "--output", str(copy))
    assert code == 0
    assert (found["count"], found["missing"], found["label"]) == (2, [], "released")
    assert sorted(found["contributed"]) == sorted([site.name, other.name])
    assert found["bytes"] == copy.stat().st_size
    assert len(found["eigenvalues"]) == study.table.layout.n_columns
    pictures = tmp_path / "pictures"
    again = site.run("components", study.name, "--plots", str(pictures))[1]
    assert again["path"].endswith("components.npz")
    plots = {name: Path(path) for name, path in again["plots"].items()}
    assert plots == {"loadings": pictures / "loadings.svg", "biplot": pictures / "biplot.png"}
    assert plots["loadings"].read_bytes().startswith(b"<svg ")
    assert plots["biplot"].read_bytes().startswith(b"\x89PNG")
    named = dppca.read_result(copy, ca=(site.folder / "ca.pem").read_bytes()).largest_loadings()
    assert [[each["loading"] for each in one["loadings"]] for one in found["components"]] == [
        [each.loading for each in one] for one in named
    ]


@pytest.fixture
def finished(curator: Curator, site: OwnerSite) -> tuple[OwnerSite, Study]:
    """A site that has the components of a study it was alone in."""
    study = curator.begin(site.name)
    assert site.contribute(study)[0] == 0
    assert site.run("components", study.name, "--wait", "300")[0] == 0
    return site, study


def test_synthetic_rows_are_drawn_and_published_and_may_be_published_again(
    finished: tuple[OwnerSite, Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, study = finished
    code, made = site.run("synthesize", study.name, "--publish")
    assert (code, made["rows"], made["published"]) == (0, 200, ["coded", "decoded"])
    assert len(made["relations"]["attributes"]) == len(study.table.attributes)
    files = {form: Path(path).read_bytes() for form, path in made["forms"].items()}
    another_processor(monkeypatch, synthesize)
    code, again = site.run("synthesize", study.name, "--publish")
    assert (code, again["bytes"], again["kept"]) == (0, made["bytes"], ["coded", "decoded"])
    assert _fails(site.run("synthesize", study.name, "--publish", "--rows", "9"))[0] == 45
    assert {form: Path(path).read_bytes() for form, path in again["forms"].items()} == files


def test_a_review_refuses_above_the_studys_share_and_a_contribution_does_not(
    curator: Curator, site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = curator.begin(site.name, faults={"refuse_if_above": 0.2})
    path = site.folder / "rows.csv"
    path.write_text(path.read_text().replace(",state", ",farm"))
    code, review = site.run("review", study.name)
    counts = review["coded_by_rule"]
    assert code == 28
    assert counts["label"] == "site-only"
    assert counts["above"] == {"work": counts["attributes"]["work"]["faults"] / 200}
    assert site.run("check", study.name)[0] == 28
    assert site.history.length == 0
    # The steward sees the same counts when asked, and the answer alone decides.
    monkeypatch.setattr(sys, "stdin", _Terminal("n\n"))
    assert _fails(site.run("contribute", study.name))[0] == 24
    assert site.history.length == 0
    shown: list[str] = []
    monkeypatch.setattr(
        "dppca.owner.commands.consent.click.echo", lambda text, **_: shown.append(text)
    )
    monkeypatch.setattr(sys, "stdin", _Terminal("y\n"))
    assert site.run("contribute", study.name)[0] == 0
    assert json.loads(shown[-1])["coded_by_rule"] == counts
    monkeypatch.undo()
    assert "TOO MANY FAULTS" in shown[0]
    assert "choice made from data" in shown[0]
    assert site.run("contribute", study.name)[1]["coded_by_rule"] is None  # no row was read


PATIENTS = 'patients: {who: Secret people of ward 7, epsilon: "3", delta: "0"}'


def test_a_spent_budget_stays_spent_under_every_new_name(curator: Curator, site: OwnerSite) -> None:
    site.state_policy([PATIENTS], ["survey: {population: patients, path: rows.csv}"])
    first, second = curator.begin(site.name, epsilon="2"), curator.begin(site.name, epsilon="2")
    code, reviewed = site.run("review", first.name)
    assert (code, reviewed["budget"]["population"]) == (0, "patients")
    code, done = site.contribute(first)
    assert (code, done["population"], done["remaining"]) == (0, "patients", "1")
    for populations, data_set in (
        ([PATIENTS], "visits: {population: patients, path: ./rows.csv}"),
        ([PATIENTS.replace("patients", "people")], "visits: {population: people, path: rows.csv}"),
        ([PATIENTS.replace("patients", "people")], "survey: {population: people, path: moved.csv}"),
    ):
        (site.folder / "moved.csv").write_bytes((site.folder / "rows.csv").read_bytes())
        site.state_policy(populations, [data_set])
        code, message = error_of(site.contribute(second))
        assert (code, "2 is spent; with this release it would be 4" in message) == (21, True)
    assert site.history.total("survey").epsilon == 2


def test_what_the_policy_says_of_people_stays_at_the_site(tmp_path: Path) -> None:
    curator = Curator(tmp_path).start()
    try:
        site = make_enrolled_site(curator, tmp_path)
        site.state_policy([PATIENTS], ["hidden-survey: {population: patients, path: rows.csv}"])
        study = curator.begin(site.name, epsilon="1")
        assert site.contribute(study)[0] == 0
    finally:
        curator.stop()  # so that its files are not moved while they are read
    ledger = (site.folder / "ledger.sqlite").read_bytes()
    assert b"Secret people" not in ledger
    assert b"rows.csv" not in ledger
    kept = [path for path in curator.state.rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        content = path.read_bytes()
        assert not any(
            word in content for word in (b"Secret people", b"hidden-survey", b"patients")
        )
