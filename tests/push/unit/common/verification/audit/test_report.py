"""What an auditor is told of a site's record."""

import json
import os
import re
from html import unescape
from pathlib import Path

import pytest

from dppca.common.kernel.errors import LedgerError, SettingError
from dppca.common.verification.audit.form import AUDIT
from dppca.common.verification.audit.report import audit_text
from dppca.common.verification.cli import cli
from dppca.owner.cli import cli as owner
from dppca.owner.ledger import database
from dppca.owner.ledger.lock import lock_site
from tests.support.audits import AuditedSite, add_model, make_audited_site, parsed
from tests.support.certificates import Authority
from tests.support.commands import answer_of, run_here
from tests.support.ledgers import NOW
from tests.support.people import ANNA, BERT, CORA, DORA, roles_of, sign


@pytest.fixture
def audited(tmp_path: Path, authority: Authority) -> AuditedSite:
    return make_audited_site(tmp_path / "site", authority)


def test_it_says_what_was_spent_and_who_has_signed(audited: AuditedSite, tmp_path: Path) -> None:
    report = audited.check(audited.export(tmp_path / "bundle"))
    (people,) = report.populations
    assert (people.population, people.releases, people.spent) == ("survey", 2, "2")
    assert (people.budget_epsilon, people.within, people.also) == ("3", True, ())
    assert report.roles is not None
    assert (report.roles.version, report.roles.needed, len(report.roles.people)) == (1, 2, 3)
    assert report.roles.people[0] == [ANNA.key.fingerprint]
    assert [each.what for each in report.releases] == [
        "contribution to study nltcs",
        "m of study nltcs",
        "vote on a set of study nltcs",
        "synthetic rows of study nltcs",
        "opening of a set of study nltcs",
    ]
    assert {(each.signed, each.needed, each.lacks) for each in report.releases} == {
        ((1, 3), 2, None)
    }
    text = audit_text(report, ca=Path("ca.pem"))
    assert "population survey: epsilon 2 of 3 spent" in text
    assert "signed by p1, p3 (2 had to)" in text
    assert "LACKS" not in text
    assert "vouched for by" in text
    assert "nobody can see without an earlier bundle" in text


def test_facts_of_statements_and_how_cells_are_read_stay_at_the_site(
    audited: AuditedSite, tmp_path: Path
) -> None:
    content = audited.export(tmp_path / "bundle").read_text()
    document = json.loads(content)
    withheld = [each for each in document["entries"] if "withheld" in each]
    assert {each["kind"] for each in withheld} == {"proposed", "reserve"}
    assert not any("salt" in each for each in withheld)
    assert all("salt" in each for each in document["entries"] if "withheld" not in each)
    for secret in ('place\\":', "budgets", "policy_sha256", '"facts":', "d" * 64, "b" * 64):
        assert secret not in content, secret


def test_a_site_without_roles_is_audited_too(tmp_path: Path, authority: Authority) -> None:
    site = make_audited_site(tmp_path / "plain", authority, roles=False)
    report = site.check(site.export(tmp_path / "bundle"))
    assert (report.roles, report.unsigned) == (None, ())
    assert {each.needed for each in report.releases} == {0}
    text = audit_text(report, ca=None)
    assert "the site has no roles" in text
    assert "the site had no roles then" in text


def test_later_roles_are_the_ones_that_count(audited: AuditedSite, tmp_path: Path) -> None:
    with audited.open() as ledger:
        (audited.folder / "ca.pem").write_text("the authority")
        digest = ledger.propose_roles(roles_of((ANNA, BERT, DORA)), now=NOW)
        sign(ledger, digest, ANNA, BERT, DORA)
        add_model(ledger, "later")
    (audited.folder / "ca.pem").write_bytes(audited.credentials.ca)
    report = audited.check(audited.export(tmp_path / "bundle"))
    assert report.roles is not None
    assert (report.roles.version, report.unsigned) == (2, ())
    assert CORA.key.fingerprint not in str(report.roles.people)
    assert report.releases[-1].signed == (1, 2)
    assert report.releases[0].signed == (1, 3)


def test_exports_are_counted_and_the_next_one_shows_them(
    audited: AuditedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "anna\x1b[31m")
    first = audited.export(tmp_path / "first")
    monkeypatch.setenv("SUDO_USER", "")
    second = audited.export(tmp_path / "second")
    report = audited.check(second, since=first)
    (look,) = report.looks
    assert (look.number, look.caller, look.sha256) == (
        1,
        "anna\x1b[31m",
        audited.check(first).sha256,
    )
    assert parsed(second).look.previous == look.sha256
    text = audit_text(report, ca=Path("ca.pem"))
    assert "it continues export 1" in text
    assert "\x1b" not in text
    assert (audited.folder / "looks.jsonl").read_text().count("\n") == 2
    if os.name == "posix":
        assert (audited.folder / "looks.jsonl").stat().st_mode & 0o077 == 0


def test_an_export_waits_for_the_command_that_has_the_ledger(
    audited: AuditedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_WAIT_S", 0.0)
    with lock_site(audited.folder / "site.lock", wait_s=0):
        code, found = answer_of(
            "dppca-owner", owner, "--site", audited.folder, "audit", "--output", tmp_path / "no"
        )
    assert (code, found["error"]["class"]) == (LedgerError.exit_code, "LedgerError")
    assert not (tmp_path / "no").exists()
    assert not (audited.folder / "looks.jsonl").exists()


def test_the_page_says_what_the_text_says_and_loads_nothing(
    audited: AuditedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "<b>anna</b>\x1b[31m")
    first, page = audited.export(tmp_path / "first"), tmp_path / "page.html"
    second, ca = audited.export(tmp_path / "second"), audited.folder / "ca.pem"
    asked = ("audit", second, "--ca", ca, "--since", first)
    code, text, _ = run_here(cli, *asked, "--page", page)
    assert code == 0
    written = page.read_text()
    shown = unescape(re.sub(r"<[^>]*>", "", written.split("<body>")[1])).replace(f" ({AUDIT})", "")
    for line in text.splitlines():
        name, _, rest = line.strip().partition(": ")
        assert f"{name}: {rest}" in shown, line
    assert "size: A4" in written
    assert not re.search(r"<b>anna|\x1b|<script|src=|href=|url\(", written)
    code, _, said = run_here(cli, *asked, "--page", page)
    assert (code, page.read_text()) == (SettingError.exit_code, written), said


def test_without_an_authority_nobody_vouches(audited: AuditedSite, tmp_path: Path) -> None:
    bundle = audited.export(tmp_path / "bundle")
    code, text, _ = run_here(cli, "audit", bundle)
    assert (code, "NOBODY VOUCHES" in text) == (52, True)
