"""Exports, comparisons and plans of a ledger."""

import csv
import hashlib
import io
import json
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.privacy.accounting import Budget, PrivacyCost
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.tools import MOST_FITTING, fitting, plan
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_studies import keep_study
from tests.support.examples import examples
from tests.support.ledgers import NOW, drawn, ledger_files, request_of, tamper
from tests.support.sites import OwnerSite, error_of, make_site
from tests.support.studies import make_study

NOTHING = PrivacyCost(epsilon=Decimal(0), rho=Decimal(0))


@pytest.fixture
def site(tmp_path: Path) -> OwnerSite:
    """A site with one release that was sent and one that was only reserved."""
    made = make_site(tmp_path / "site")
    path, lock = ledger_files(made.folder)
    with open_ledger(path, lock=lock) as ledger:
        study = make_study("small", name="first", epsilon="0.5")
        reservation = ledger.reserve(request_of(study), release_id=bytes(16), now=NOW)
        ledger.commit(drawn(study, reservation), now=NOW)
        ledger.mark_sent(bytes(16), now=NOW)
        other = request_of(make_study("small", name="second", epsilon="0.7"))
        ledger.reserve(other, release_id=b"x" * 16, now=NOW)
    return made


def _run(site: OwnerSite, *arguments: str) -> Any:
    code, document = site.run("budget", *arguments)
    assert code == 0, document
    return document


def test_the_budget_is_shown_with_and_without_its_command(site: OwnerSite) -> None:
    (_, alone), shown = site.run("budget"), _run(site, "show")
    assert (alone.pop("command"), shown.pop("command")) == ("budget", "budget show")
    assert alone == shown
    assert shown["populations"]


def test_an_export_holds_every_entry_and_its_chain_can_be_verified(site: OwnerSite) -> None:
    found = _run(site, "export")
    assert [each["kind"] for each in found["chain"]] == ["reserve", "commit", "sent", "reserve"]
    previous = "0" * 64
    for entry in found["chain"]:
        fields = {key: value for key, value in entry.items() if key not in ("sha256", "salt")}
        assert entry["previous"] == previous
        salted = bytes.fromhex(entry["salt"]) + canonical_json(fields)
        previous = hashlib.sha256(salted).hexdigest()
        assert entry["sha256"] == previous
    assert found["head"] == previous


def test_an_export_goes_to_a_file_of_either_form(site: OwnerSite, tmp_path: Path) -> None:
    whole = _run(site, "export")
    table, document = tmp_path / "ledger.csv", tmp_path / "ledger.json"
    assert _run(site, "export", "--output", str(table))["entries"] == 4
    _run(site, "export", "--output", str(document))
    assert json.loads(document.read_text())["chain"] == whole["chain"]
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert [row["sequence"] for row in rows] == ["1", "2", "3", "4"]
    assert (rows[0]["charged_epsilon"], rows[0]["n_rows"]) == ("0.5", "")
    assert (rows[1]["charged_epsilon"], rows[1]["n_rows"]) == ("", "10")
    code, failed = site.run("budget", "export", "--output", str(tmp_path / "ledger.xlsx"))
    assert (code, failed["error"]["class"]) == (10, "SettingError")


def test_a_ledger_verifies_against_its_receipts_and_what_was_noted(site: OwnerSite) -> None:
    found = _run(site, "verify")
    assert [each["receipt"] for each in found["releases"]] == ["as charged", None]
    assert not any(each["recomputed"] for each in found["releases"])
    keep_study(load_site(site.folder), make_study("small", name="first", epsilon="0.5"))
    assert [each["recomputed"] for each in _run(site, "verify")["releases"]] == [True, False]
    digests = [each["sha256"] for each in _run(site, "export")["chain"]]
    for length in (1, 4):
        noted = f"{length}:{digests[length - 1]}"
        assert _run(site, "verify", "--extends", noted)["extends"] == noted
    for noted, code in ((f"4:{digests[0]}", 48), (f"5:{'0' * 64}", 48), ("4", 10)):
        assert site.run("budget", "verify", "--extends", noted)[0] == code


def test_a_receipt_of_another_charge_or_where_the_study_is_kept_sensitivity_is_found(
    site: OwnerSite,
) -> None:
    _forge(site, b'"charged_epsilon":"0.5"', b'"charged_epsilon":"0.1"')
    assert site.run("budget")[0] == 0, "the chain itself is whole"
    code, message = error_of(site.run("budget", "verify"))
    assert (code, "entry 2" in message, "charged_epsilon" in message) == (31, True, True)
    _forge(site, b'"charged_epsilon":"0.1"', b'"charged_epsilon":"0.5"')
    keep_study(load_site(site.folder), make_study("small", name="first", epsilon="0.5"))
    _forge(site, b'"l1":', b'"l1":1')
    code, message = error_of(site.run("budget", "verify"))
    assert (code, "l1" in message) == (31, True)


def _forge(site: OwnerSite, before: bytes, after: bytes) -> None:
    """Change the stored receipt and make up the chain that follows from it."""
    path, lock = ledger_files(site.folder)
    with closing(sqlite3.connect(path)) as direct:
        (receipt,) = direct.execute("SELECT receipt FROM releases").fetchone()
        select = "SELECT document, salt FROM entries WHERE sequence = 2"
        document, salt = direct.execute(select).fetchone()
    changed = receipt.replace(before, after)
    assert changed != receipt
    entry = json.loads(document) | {"receipt_sha256": hashlib.sha256(changed).hexdigest()}
    again = canonical_json(entry)
    tamper(
        path,
        "UPDATE releases SET receipt = :receipt",
        "DELETE FROM entries WHERE sequence > 2",
        "UPDATE entries SET document = :document, digest = :digest WHERE sequence = 2",
        receipt=changed,
        document=again,
        digest=hashlib.sha256(salt + again).digest(),
    )
    assert site.run("budget")[0] == 48, "the marks know better"
    with open_ledger(path, lock=lock) as ledger:
        ledger.recover([])


def test_a_plan_says_what_further_releases_would_leave(site: OwnerSite, tmp_path: Path) -> None:
    found = _run(site, "plan", "--epsilon", "0.5", "--times", "4")
    assert (found["population"]["spent"], found["population"]["remaining"]) == ("1.2", "1.8")
    steps = [(each["admitted"], each["remaining"], each["fits"]) for each in found["steps"]]
    assert steps == [(True, "1.3", 3), (True, "0.8", 2), (True, "0.3", 1), (False, "0.3", 0)]
    files = []
    for name, epsilon in (("first", "0.5"), ("third", "1.5")):
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(
            make_study("small", name=name, epsilon=epsilon).canonical_bytes()
        )  # JSON is YAML
        files += ["--study-file", str(path)]
    again, third = _run(site, "plan", *files)["steps"]
    assert (again["charged_epsilon"], again["remaining"]) == ("0", "1.8")
    assert (third["charged_epsilon"], third["remaining"]) == ("1.5", "0.3")
    assert site.history.length == 4, "nothing was charged"


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--delta", "1e-6"),
        ("plan", "--epsilon", "0.1", "--study-file", "x.yaml"),
        ("--data-set", "survey", "plan", "--epsilon", "0.1"),
    ],
    ids=" ".join,
)
def test_a_plan_needs_one_thing_to_plan(site: OwnerSite, arguments: tuple[str, ...]) -> None:
    code, failed = site.run("budget", *arguments)
    assert (code, failed["error"]["class"]) == (10, "SettingError")


@settings(derandomize=True, max_examples=examples(40))
@given(
    epsilon=st.decimals("0.1", "20", places=2),
    each=st.decimals("0.01", "3", places=2),
    spent=st.decimals("0", "5", places=2),
)
def test_so_many_fit_and_not_one_more(epsilon: Decimal, each: Decimal, spent: Decimal) -> None:
    budget, charge = Budget(epsilon, Decimal("1e-6")), PrivacyCost(epsilon=each, rho=Decimal(0))
    total = PrivacyCost(epsilon=spent, rho=Decimal(0))
    number = fitting(budget, total, charge)
    assert number == max(0, int((epsilon - spent) / each))
    steps = plan(budget, total, [("x", charge)] * (min(number, 50) + 1))
    assert sum(step.admitted for step in steps) == min(number, len(steps))


def test_what_costs_nothing_always_fits() -> None:
    assert fitting(Budget(Decimal(1), Decimal(0)), NOTHING, NOTHING) == MOST_FITTING
