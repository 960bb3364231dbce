"""What commands of an owner do with bad input, at a site without a curator."""

import errno
import json
import os
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.shell.console import run
from dppca.common.shell.pasting import pasted, pasted_page, repeat_options
from dppca.owner.cli import cli
from tests.support.certificates import Authority, write_credentials
from tests.support.ledgers import NOW, ledger_files, request_of
from tests.support.sites import OwnerSite, make_site, policy_text
from tests.support.studies import binary_of, make_study, numeric_of, study_document

NOWHERE = "127.0.0.1:1"
STUDY = make_study()


@pytest.fixture
def site(tmp_path: Path, authority: Authority) -> OwnerSite:
    return make_site(tmp_path / "site", credentials=authority.issue(Role.OWNER, "owner-1"))


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(json.loads(STUDY.canonical_bytes())))
    return path


def _error(answer: tuple[int, Any]) -> tuple[int, str]:
    code, document = answer
    assert document["error"]["exit_code"] == code
    return code, document["error"]["class"]


def _text(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as left:
        run(cli, list(arguments))
    printed = capsys.readouterr()
    return left.value.code, printed.out, printed.err


@pytest.mark.parametrize("arguments", [["review"], ["frobnicate"], ["budget", "--colour"]])
def test_a_command_line_that_cannot_be_parsed_is_a_usage_error(
    site: OwnerSite, arguments: list[str]
) -> None:
    assert _error(site.run(*arguments)) == (2, "UsageError")


@pytest.mark.parametrize(
    "arguments",
    [["doctor"], ["review", "s"], ["contribute", "s"], ["components", "s"], ["budget"]],
)
def test_a_folder_that_is_no_site_is_a_bad_setting(tmp_path: Path, arguments: list[str]) -> None:
    code, document = OwnerSite(tmp_path / "alone" / "here", "nobody").run(*arguments)
    assert code == 10
    message = document.get("error", {}).get("message") or document["findings"][0]["message"]
    assert (
        "name your site's folder with --site. Only for a new site: `dppca-owner --site" in message
    )
    assert "init --name" in message


def test_a_folder_without_a_site_names_the_sites_beside_it_first(
    site: OwnerSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(site.folder.parent)
    code, out, err = _text("budget", capsys=capsys)
    assert (code, out) == (10, "")
    assert (
        "error: no site.yaml in .: name your site's folder with --site, such as site. Only" in err
    )
    code, _, err = _text("--site", "siet", "budget", capsys=capsys)
    assert (code, "with --site, such as site. Only" in err) == (10, True)
    (site.folder / "site.yaml").write_bytes(b"\xff")
    code, _, err = _text("--site", str(site.folder), "budget", capsys=capsys)
    assert (code, "UTF-8" in err, "name your site" in err) == (10, True, False)


@pytest.mark.parametrize("folder", ["coast", "a site", "it's & <b>", "x`y"])
def test_a_text_repeats_the_site_that_was_given_in_every_command_that_it_names(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _text("--site", folder, "init", "--name", "x", "--curator", NOWHERE, capsys=capsys)
    code, _, err = _text("--site", folder, "train", "s", "--target", "t", capsys=capsys)
    (line,) = re.findall("run `(dppca-owner .* components s)`", err)
    assert (code != 0, shlex.split(line)) == (
        True,
        ["dppca-owner", "--site", folder, *line.split()[-2:]],
    )
    for given in ([], ["--json"]):
        monkeypatch.setenv("DPPCA_SITE", folder)
        before = [] if not given else ["--site", folder]
        _, out, err = _text(*before, "train", "s", "--target", "t", *given, capsys=capsys)
        assert "`dppca-owner components s`" in (out or err), "it holds there, too; a program knows"


def test_prose_and_other_programs_are_no_commands_and_pages_stay_pages() -> None:
    repeat_options("dppca-owner", ["--site", "<b> 'x'"], commands=["open", "review"])
    told = "dppca-owner that wrote it, my-dppca-owner open s, dppca-owner --site x open"
    assert pasted(told) == told
    page = pasted_page("<code>dppca-owner open s</code>")
    assert "<b>" not in page
    (line,) = re.findall("<code>(.*)</code>", page)
    assert shlex.split(unescape(line)) == ["dppca-owner", "--site", "<b> 'x'", "open", "s"]
    repeat_options("", [])
    assert pasted("`dppca-owner open s`") == "`dppca-owner open s`"


def test_commands_that_are_printed_can_be_pasted_whatever_the_folder_is_called(
    tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "Saint Mary's; hospital $HOME"
    site = OwnerSite(folder, "x")
    assert site.run("budget")[0] == 10
    printed = [site.run("budget")[1]["error"]["message"]]
    printed += site.run("init", "--name", "x", "--curator", NOWHERE)[1]["next"]
    write_credentials(folder, authority.issue(Role.OWNER, "x"))
    printed += site.run("renew")[1]["next"]
    commands = [
        shlex.split(line)
        for text in printed
        for line in re.findall(r"dppca-owner (--site .*?)(?:`|$)", text)
    ]
    assert [line[:2] for line in commands] == [["--site", str(folder)]] * 3
    assert [line[2] for line in commands] == ["init", "doctor", "renew"]
    (folder / "key.pem").chmod(0o644)
    with mock.patch.object(Path, "chmod", side_effect=PermissionError):
        advice = _findings(site)[1]["site"][1]
    assert shlex.split(advice.rpartition("run ")[2]) == ["chmod", "go=", str(folder / "key.pem")]


def test_check_names_attribute_and_row_of_every_fault_and_no_value(
    site: OwnerSite, study_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = site.folder / "bad.csv"
    data.write_text("age,sex,work\n20,Male,private\n999,Zebra,private\nabc,Male,\ninf,Male,state\n")
    arguments = ("check", "--data", str(data), "--study-file", str(study_file))
    code, report = site.run(*arguments)
    assert code == 14
    age, sex, work = (
        report["coded_by_rule"]["attributes"][name]["found"] for name in ("age", "sex", "work")
    )
    assert age["out-of-bounds"] == {"count": 1, "rows": [2]}
    assert age["text"]["rows"] == [3]
    assert age["infinite"]["rows"] == [4]
    assert sex["unknown"]["rows"] == [2]
    assert work["missing"]["rows"] == [3]
    code, out, _ = _text(*arguments, capsys=capsys)
    assert code == 14
    for text in (out, json.dumps(report)):
        assert not any(value in text for value in ("999", "Zebra", "abc"))


def test_one_hot_columns_of_a_data_set_are_checked_as_the_attribute_that_they_are(
    site: OwnerSite, study_file: Path
) -> None:
    data = site.folder / "bits.csv"
    data.write_text("age,sex,w1,w2\n20,Male,1,0\n30,Female,0,1\n40,Male,1,1\n50,Male,0,0\n")
    work = STUDY.table.attributes[STUDY.table.find_index("work")].categories
    group = {"work": dict(zip(["w1", "w2"], work, strict=False))}
    entry = f"path: {data.name}, one_hot: {json.dumps(group)}"
    (site.folder / "policy.yaml").write_text(policy_text({"bits": entry}))
    code, report = site.run("check", "--data-set", "bits", "--study-file", str(study_file))
    assert code == 14
    assert report["coded_by_rule"]["attributes"]["work"]["found"] == {
        "missing": {"count": 2, "rows": [3, 4]}
    }
    data.write_text("age,sex,w1\n20,Male,1\n")
    answer = site.run("check", "--data-set", "bits", "--study-file", str(study_file))
    assert _error(answer) == (13, "DataError")


def test_check_says_how_a_file_is_written_and_the_line_of_the_policy_reads_it(
    site: OwnerSite, study_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = STUDY.table.attributes[STUDY.table.find_index("work")].categories
    data = site.folder / "sheet.csv"
    data.write_text(f"age;sex;work\n27,5;Male;{labels[0]}\n-;Male;{labels[1]}\n")
    entry = f"path: {data.name}"
    for option, first in (("--data-set", "sheet"), ("--data", str(data))):
        (site.folder / "policy.yaml").write_text(policy_text({"sheet": entry}))
        arguments = ["check", option, first, "--study-file", str(study_file)]
        before = ["--site", str(site.folder)]
        code, _, said = _text(*before, *arguments, capsys=capsys)
        assert (code, "first line of" in said, "27,5" in said) == (13, True, False)
        if option == "--data":
            (line,) = re.findall("^  --format '(.*)'$", said, re.M)
            arguments += ["--format", line]
        else:
            (line,) = re.findall("^      format: (.*)$", said, re.M)
            (site.folder / "policy.yaml").write_text(
                policy_text({"sheet": f"{entry}, format: {line}"})
            )
        assert line == '{delimiter: ";", decimal: ",", missing: ["-"]}'
        code, report = site.run(*arguments)
        assert (code, report["formats"]) == (14, [])
        found = report["coded_by_rule"]["attributes"]
        assert {name: [*each["found"]] for name, each in found.items()} == {
            "age": ["missing"],
            "sex": [],
            "work": [],
        }
    answer = site.run(
        "check", "--data-set", "sheet", "--format", line, "--study-file", str(study_file)
    )
    assert _error(answer) == (10, "SettingError")


def test_check_counts_bins_that_would_lose_heaps_from_the_schema_alone(
    site: OwnerSite, tmp_path: Path
) -> None:
    data = site.folder / "hours.csv"
    data.write_text("hours,sex\n10,m\n20,f\n")
    hours = numeric_of("hours", 1, 99, integer=True, bins=14, histogram=True)
    for fields, wide in ((hours, ["hours"]), ({**hours, "spikes": [40]}, [])):
        study = tmp_path / f"{len(wide)}.yaml"
        study.write_text(json.dumps(study_document([fields, binary_of("sex", ["f", "m"])])))
        arguments = ("check", "--data", str(data), "--study-file", str(study))
        code, report = site.run(*arguments)
        assert (code, report["wide_bins"]) == (0, wide)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check"], 10),
        (["check", "census", "--study-file", "STUDY"], 10),
        (["check", "--study-file", "STUDY", "--data", "a.csv", "--data-set", "survey"], 10),
        (["check", "--study-file", "STUDY", "--data", "absent.csv"], 13),
        (["check", "--study-file", "absent.yaml"], 11),
        (["check", "--study-file", "STUDY", "--data-set", "absent"], 20),
    ],
)
def test_check_refuses_what_it_cannot_use(
    site: OwnerSite, study_file: Path, arguments: list[str], code: int
) -> None:
    given = [str(study_file) if each == "STUDY" else each for each in arguments]
    assert _error(site.run(*given))[0] == code


def _findings(site: OwnerSite) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code, and of each area the state and message of its last finding."""
    code, document = site.run("doctor", "--offline")
    assert document["healthy"] == (code == 0)
    return code, {each["area"]: (each["state"], each["message"]) for each in document["findings"]}


def test_a_site_that_is_ready_is_healthy(site: OwnerSite) -> None:
    (site.folder / "key.pem").chmod(0o600)
    code, found = _findings(site)
    assert code == 0
    assert found["certificates"][0] == found["policy"][0] == found["ledger"][0] == "ok"
    assert found["connection"][0] == "skipped"


def _soon(authority: Authority) -> Credentials:
    now = datetime.now(UTC)
    start, end = now - timedelta(days=80), now + timedelta(days=10)
    return authority.issue(Role.OWNER, "owner-1", start=start, end=end)


def test_a_certificate_that_expires_soon_is_a_warning(
    site: OwnerSite, authority: Authority
) -> None:
    write_credentials(site.folder, _soon(authority))
    (site.folder / "key.pem").chmod(0o600)
    code, found = _findings(site)
    assert (code, found["certificates"][0]) == (0, "warning")
    assert "expires in 9 days" in found["certificates"][1]


def test_doctor_and_contribute_say_what_is_wrong_with_a_certificate(
    site: OwnerSite, authority: Authority
) -> None:
    write_credentials(site.folder, authority.issue(Role.OWNER, "owner-2"))
    code, found = _findings(site)
    assert (code, found["certificates"][0]) == (41, "broken")
    code, failed = site.run("contribute", "census", "--yes")
    assert (code, failed["error"]["class"]) == (41, "IdentityError")
    for said in (found["certificates"][1], failed["error"]["message"]):
        assert "is for owner owner-2" in said


def test_doctor_finds_every_fault_in_one_visit(site: OwnerSite) -> None:
    (site.folder / "rows.csv").unlink()
    (site.folder / "certificate.pem").unlink()
    (site.folder / "ledger.sqlite").write_bytes(b"no ledger at all, but some bytes" * 40)
    code, found = _findings(site)
    assert code == 41
    broken = {area for area, (state, _) in found.items() if state == "broken"}
    assert broken == {"certificates", "data", "ledger"}


@pytest.mark.parametrize(
    "number", [errno.EROFS, errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get
)
def test_doctor_writes_to_the_sites_folder_to_know_that_it_can_be_written(
    site: OwnerSite, number: int
) -> None:
    before = sorted(site.folder.iterdir())
    failure = OSError(number, os.strerror(number))
    with mock.patch("dppca.owner.commands.diagnosis.TemporaryFile", side_effect=failure):
        code, found = _findings(site)
    assert (code, found["ledger"][0]) == (30, "broken")
    assert f"cannot be written ({os.strerror(number)}), so nothing" in found["ledger"][1]
    assert sorted(site.folder.iterdir()) == before


def test_a_site_is_not_made_beside_an_authoritys_key(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    folder.mkdir()
    (folder / "ca-key.pem").write_text("secret")
    code, document = OwnerSite(folder, "a").run("init", "--name", "a", "--curator", "hub:1")
    assert (code, document["error"]["class"]) == (10, "SettingError")
    assert "the folder of another party (ca-key.pem)" in document["error"]["message"]
    assert [each.name for each in folder.iterdir()] == ["ca-key.pem"]


def test_doctor_says_that_a_policy_without_data_sets_releases_nothing(site: OwnerSite) -> None:
    (site.folder / "policy.yaml").write_text("data_sets: {}\n")
    assert _findings(site)[1]["policy"][0] == "warning"
    (site.folder / "policy.yaml").unlink()
    code, found = _findings(site)
    assert (code, found["policy"][0]) == (20, "broken")


def test_doctor_refuses_a_budget_that_is_no_populations(site: OwnerSite) -> None:
    with (site.folder / "policy.yaml").open("a") as file:
        file.write('  more: {path: more.csv, epsilon: "3", delta: "0"}\n')
    code, found = _findings(site)
    assert (code, found["policy"][0]) == (10, "broken")
    assert "line 5, data_sets.more: population is missing" in found["policy"][1]
    for command in (["budget"], ["budget", "plan", "--epsilon", "1"]):
        assert _error(site.run(*command)) == (10, "SettingError")


PATIENTS = 'patients: {who: All patients, epsilon: "3", delta: "0"}'
STAFF = 'staff: {who: All staff, epsilon: "1", delta: "0"}'
SURVEY = "survey: {population: patients, path: rows.csv}"


def _charge(site: OwnerSite, *, data_set: str = "survey") -> None:
    """Charge 0.7 as the policy says now, or for a data set that it does not name."""
    from dppca.owner.ledger.database import open_ledger
    from dppca.owner.site.config import load_site
    from dppca.owner.site.policy import load_policy

    request = request_of(make_study("small", epsilon="0.7"), data_set=data_set)
    named = {each.name: each.account for each in load_policy(load_site(site.folder)).data_sets}
    path, lock = ledger_files(site.folder)
    with open_ledger(path, lock=lock) as ledger:
        account = named.get(data_set, request.account)
        ledger.reserve(replace(request, account=account), release_id=bytes(16), now=NOW)


def test_doctor_says_that_the_people_of_a_charge_are_not_stated_and_how_to_state_them(
    site: OwnerSite,
) -> None:
    _charge(site, data_set="old")
    code, found = _findings(site)
    assert (code, found["budget"][0]) == (10, "broken")
    assert "the ledger has charges of old, and policy.yaml does not say" in found["budget"][1]
    site.state_policy([PATIENTS.replace("}", ", was: [old, survey]}")], [SURVEY])
    assert _findings(site)[0] == 0
    (people,) = site.run("budget")[1]["populations"]
    assert (people["name"], people["who"]) == ("patients", "All patients")
    assert (people["spent"], people["remaining"]) == ("0.7", "2.3")


RENAMED = {
    "the population": SURVEY,
    "both": "visits: {population: patients, path: ./rows.csv}",
}


@pytest.mark.parametrize("data_set", RENAMED.values(), ids=list(RENAMED))
def test_no_new_name_gives_a_file_a_new_budget(site: OwnerSite, data_set: str) -> None:
    _charge(site)
    site.state_policy([PATIENTS], [data_set])
    (people,) = site.run("budget")[1]["populations"]
    assert (people["spent"], people["remaining"]) == ("0.7", "2.3")
    plan = site.run("budget", "plan", "--epsilon", "2.4")[1]
    assert (plan["population"]["remaining"], plan["steps"][0]["admitted"]) == ("2.3", False)
    assert site.run("budget", "plan", "--epsilon", "2.3")[1]["steps"][0]["admitted"]


def test_doctor_warns_of_two_populations_over_one_source(
    site: OwnerSite, capsys: pytest.CaptureFixture[str]
) -> None:
    work = "work: {population: staff, path: ./rows.csv}"
    site.state_policy([PATIENTS, STAFF], [SURVEY, work])
    code, found = _findings(site)
    assert (code, found["policy"][0]) == (0, "warning")
    assert "survey and work have rows in common" in found["policy"][1]
    _charge(site)
    patients, workers = site.run("budget")[1]["populations"]
    assert (patients["remaining"], workers["remaining"]) == ("2.3", "0.3")
    assert (patients["tied_to"], workers["tied_to"]) == (["staff"], ["patients"])
    plan = site.run("budget", "plan", "--data-set", "survey", "--epsilon", "0.4")[1]
    assert (plan["population"]["tied_to"], plan["steps"][0]["admitted"]) == (["staff"], False)
    out = _text("--site", str(site.folder), "budget", capsys=capsys)[1]
    assert "patients: All patients" in out
    assert "patients shares all charges with staff" in out


def test_doctor_warns_where_charges_tie_two_populations(site: OwnerSite) -> None:
    site.state_policy([PATIENTS], [SURVEY])
    _charge(site)
    site.state_policy([PATIENTS, STAFF], [SURVEY.replace("patients", "staff")])
    code, found = _findings(site)
    assert (code, found["budget"][0]) == (0, "warning")
    assert "populations patients, staff share their charges" in found["budget"][1]


def test_doctor_reaches_for_the_curator_and_says_when_it_is_not_there(site: OwnerSite) -> None:
    code, document = site.run("doctor")
    assert code == 40
    connection = next(each for each in document["findings"] if each["area"] == "connection")
    assert connection["error"] == "UnreachableError"


def test_the_budget_lists_charges_and_how_far_they_came(
    site: OwnerSite, capsys: pytest.CaptureFixture[str]
) -> None:
    from dppca.owner.ledger.database import open_ledger

    path, lock = ledger_files(site.folder)
    with open_ledger(path, lock=lock) as ledger:
        ledger.reserve(
            request_of(make_study("small", epsilon="0.7")), release_id=bytes(16), now=NOW
        )
    found = site.run("budget", "--data-set", "survey")[1]
    assert found["populations"][0]["remaining"] == "2.3"
    assert [(r["study"], r["charged_epsilon"], r["state"]) for r in found["releases"]] == [
        ("study-1", "0.7", "reserved")
    ]
    (site.folder / "policy.yaml").unlink()
    assert site.run("budget")[1]["populations"][0]["epsilon"] is None
    code, out, _ = _text("--site", str(site.folder), "budget", capsys=capsys)
    assert code == 0
    assert "the chain verifies" in out
    assert "reserved" in out
    assert "rho" not in out, "people are told epsilon; the JSON has both"


@pytest.mark.parametrize("command", [["components"], ["review"], ["contribute", "--yes"]])
def test_a_name_that_is_a_path_is_refused_before_anybody_is_asked(
    site: OwnerSite, command: list[str]
) -> None:
    assert _error(site.run(*command, "../../etc")) == (10, "SettingError")


def test_nothing_is_read_or_charged_where_the_policy_lacks_a_data_set(site: OwnerSite) -> None:
    assert _error(site.run("budget", "--data-set", "other")) == (20, "NoPolicyError")
    (site.folder / "policy.yaml").unlink()
    assert _error(site.run("review", "census")) == (20, "NoPolicyError")
    assert site.history.length == 0


def test_an_error_is_text_on_standard_error_unless_json_is_asked_for_behind_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = _text("--json", "studies", capsys=capsys)
    assert code == 2
    assert json.loads(out)["error"]["message"] == "put --json after the command"
    code, out, err = _text("--site", str(tmp_path), "budget", capsys=capsys)
    assert (code, out) == (10, "")
    assert err.startswith("error: no site.yaml")
