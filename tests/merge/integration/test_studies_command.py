"""A site's studies against a curator: listed, watched, and offered when Tab is pressed."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from dppca.common.kernel.study import Study
from dppca.curator.cli import cli as curator_cli
from dppca.owner.cli import cli as owner_cli
from dppca.owner.commands import studies
from tests.support.commands import run_here
from tests.support.curator import Curator
from tests.support.sites import OwnerSite, error_of, make_enrolled_site


def listed(site: OwnerSite) -> dict[str, dict[str, Any]]:
    code, document = site.run("studies")
    assert code == 0
    return {each["name"]: each for each in document["studies"]}


def test_studies_come_with_cost_deadline_and_what_to_do(curator: Curator, site: OwnerSite) -> None:
    assert site.run("studies")[1]["studies"] == []
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2, hours=3)
    alone = curator.begin(site.name)
    shared = curator.begin(site.name, "owner-2", deadline=end.isoformat(), quorum=1)
    curator.begin("owner-2")
    found = listed(site)
    assert list(found) == [shared.name, alone.name], "newest first; others' are not shown"
    assert found[alone.name] == {
        "name": alone.name,
        "digest": alone.digest,
        "state": "open",
        "contributions": 0,
        "owners": 1,
        "contributed": False,
        "badge": {"group": "Waits for you", "words": "waits for you", "kind": "wait"},
        "deadline": None,
        "seconds_left": None,
        "epsilon": "1",
        "delta": "0",
        "title": None,
        "waits_for": "you",
        "until": None,
        "next": f"`dppca-owner review {alone.name}`: look at what would leave; "
        "`contribute` sends it",
    }
    assert datetime.fromisoformat(found[shared.name]["deadline"]) == end
    assert datetime.fromisoformat(found[shared.name]["until"]) == end
    assert found[shared.name]["waits_for"] == "you and 1 other owner"
    assert 2 * 86400 < found[shared.name]["seconds_left"] <= 51 * 3600
    assert site.history.length == 0
    assert not (site.folder / "studies").exists(), "nothing is kept, either"
    for days, names in (("2", []), ("3", [shared.name])):
        code, due = site.run("studies", "--due", days)
        assert (code, [each["name"] for each in due["studies"]]) == (0, names)


def test_a_site_that_is_locked_is_told_so_above_its_studies(
    curator: Curator, site: OwnerSite
) -> None:
    study = curator.begin(site.name)
    line = ("--site", site.folder, "studies")
    assert "locked" not in run_here(owner_cli, *line)[2]
    assert site.contribute(study)[0] == 0
    (site.folder / "ledger.sqlite").unlink()
    code, out, err = run_here(owner_cli, *line)
    assert (code, study.name in out) == (0, True)
    assert "This site is locked, and can spend nothing: " in err


def test_what_to_do_follows_the_course_of_a_study(curator: Curator, site: OwnerSite) -> None:
    alone = curator.begin(site.name)
    shared = curator.begin(site.name, "owner-2")
    assert site.contribute(shared)[0] == 0
    assert listed(site)[shared.name]["next"] == "nothing: it waits for other owners"
    code, _ = site.contribute(alone, die_at="send")
    assert code != 0
    assert "not known to be sent" in listed(site)[alone.name]["next"]
    assert site.contribute(alone)[0] == 0
    assert site.run("components", alone.name, "--wait", "300")[0] == 0
    assert f"`dppca-owner synthesize {alone.name}`" in listed(site)[alone.name]["next"]
    (site.folder / "studies" / alone.name / "components.npz").unlink()
    assert f"`dppca-owner components {alone.name}`" in listed(site)[alone.name]["next"]
    (site.folder / "ledger.sqlite").unlink()
    assert "this ledger lacks" in listed(site)[shared.name]["next"]


def test_lists_and_budgets_are_printed_without_scipy_and_arrow(
    curator: Curator, site: OwnerSite
) -> None:
    assert site.contribute(curator.begin(site.name))[0] == 0
    waiting = curator.begin(site.name)
    code = """
import sys
from dppca.common.shell.console import run
from dppca.owner.cli import cli
for command in ("studies", "budget"):
    try:
        run(cli, ["--site", sys.argv[1], command])
    except SystemExit as left:
        assert not left.code
print("loaded:", *sorted({"pandas", "pyarrow", "scipy", "sklearn"} & sys.modules.keys()))
"""
    line = [sys.executable, "-c", code, str(site.folder)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    printed, loaded = done.stdout.split("loaded:")
    assert waiting.name in printed
    assert "epsilon 1" in printed
    assert not loaded.strip()


def test_a_list_comes_by_pages_to_both_sides(
    curator: Curator, site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.common.transport.channels.STUDIES_PAGE", 2)
    names = [curator.begin(site.name).name for _ in range(5)]
    assert list(listed(site)) == names[::-1]
    assert site.run("doctor")[0] in (0, 1), "it compares the ledger with all pages"
    code, document = curator.operate("study", "list")
    assert code == 0
    assert [each["name"] for each in document["studies"]][:5] == names[::-1]
    everything = curator.operator().list_studies()  # as a client of 0.1.0 asks
    assert [each.name for each in everything.studies][:5] == names[::-1]
    assert not everything.has_more


def watched(
    site: OwnerSite, monkeypatch: pytest.MonkeyPatch, steps: list[Any]
) -> tuple[str, list[float]]:
    """Output of ``--watch``, interrupted after the steps, which pauses do; the pauses."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(studies.time, "sleep", sleep)
    code, printed, _ = run_here(owner_cli, "--site", site.folder, "studies", "--watch")
    assert code == 0
    return printed, pauses


def test_a_watch_prints_what_has_changed_until_it_is_interrupted(
    curator: Curator, site: OwnerSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = curator.begin(site.name, deadline="2040-01-01T00:00:00Z", quorum=1)
    new: list[Study] = []
    steps = [lambda: None, lambda: new.append(curator.begin(site.name)), lambda: None]
    printed, pauses = watched(site, monkeypatch, steps)
    assert pauses == [studies.POLL_S] * 4
    assert printed.count(f"{first.name}: open, 0 of 1 contribution, epsilon 1, deadline 2040") == 2
    assert printed.count(f"{new[0].name}: open") == 1
    assert "\x1b" not in printed


def test_a_watch_goes_on_when_the_curator_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = Curator(tmp_path / "hub").start()
    site = make_enrolled_site(curator, tmp_path)
    study = curator.begin(site.name)
    relisted: list[Any] = []
    monkeypatch.setattr(
        studies, "list_studies", lambda *given: relisted.append(1) or listing(*given)
    )

    def stop() -> None:
        curator.stop()
        monkeypatch.setattr("dppca.common.transport.channels.CALL_TIMEOUT_S", 1)

    printed, _ = watched(site, monkeypatch, [stop, lambda: None])
    assert len(relisted) == 3
    assert printed.count(f"{study.name}: open") == 1
    assert printed.count("not known now:") == 1


listing = studies.list_studies


def test_a_watch_is_no_document(site: OwnerSite) -> None:
    code, said = error_of(site.run("studies", "--watch"))
    assert (code, "leave out --json" in said) == (10, True)


def offer(group: click.Command, *line: str, begun: str = "") -> list[str]:
    shell = ShellComplete(group, {}, "command", "_COMMAND_COMPLETE")
    return [each.value for each in shell.get_completions(list(line), begun)]


def begin(curator: Curator, site: OwnerSite, *names: str) -> None:
    for name in names:
        curator.begin(site.name, name=name)


def test_a_steward_is_offered_the_curators_studies_that_name_the_site(
    curator: Curator, site: OwnerSite, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(curator, site, "heart", "hearing", "lungs")
    line = ("--site", str(site.folder), "review")
    assert offer(owner_cli, *line, begun="hea") == ["hearing", "heart"]
    assert "lungs" in offer(owner_cli, *line)
    assert offer(owner_cli, "--site", str(site.folder), "check", begun="l") == ["lungs"]
    assert capsys.readouterr() == ("", "")


def test_without_the_curator_those_that_the_site_keeps_are_offered(
    curator: Curator, site: OwnerSite, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(curator, site, "kept", "unseen")
    assert site.run("review", "kept")[0] == 0
    certificate = site.folder / "certificate.pem"
    certificate.rename(site.folder / "elsewhere.pem")
    assert offer(owner_cli, "--site", str(site.folder), "components") == ["kept"]
    assert offer(owner_cli, "--site", "/no/such/site", "components") == []
    assert capsys.readouterr() == ("", "")


def test_an_operator_is_offered_all_studies(curator: Curator, site: OwnerSite) -> None:
    begin(curator, site, "sleep")
    line = ("study", "show", *map(str, curator.connection))
    assert offer(curator_cli, *line, begun="sle") == ["sleep"]
    assert offer(curator_cli, "study", "show") == []
