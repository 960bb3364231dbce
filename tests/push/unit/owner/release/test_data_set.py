"""A study that was charged knows its data set: commands neither ask for it nor take another."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.errors import NoPolicyError, SettingError
from dppca.common.privacy.accounting import Budget
from dppca.common.study import Study
from dppca.owner.ledger.chain import History, admit_charge
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Reservation
from dppca.owner.records.files import local_files
from dppca.owner.release.contribution import choose_data_set, request_contribution
from dppca.owner.site.policy import DataSet, Policy
from tests.support.ledgers import BUDGET, NOW, account_of, history_of, ledger_files, request_of
from tests.support.sites import OwnerSite, error_of, make_trained_site
from tests.support.studies import make_study

STUDY = make_study("small")
NAMES = st.sampled_from(["a", "b", "c"])


def _policy(names: list[str]) -> Policy:
    accounts = [account_of(name) for name in names]
    return Policy(
        tuple(DataSet(each.data_set, local_files(Path("rows.csv")), each) for each in accounts),
        tuple(each.population for each in accounts),
    )


def _charged(data_set: str) -> History:
    request = request_of(STUDY, data_set=data_set)
    return history_of(Reservation(1, "", bytes(16), request))


@given(names=st.lists(NAMES, unique=True, min_size=1), charged=NAMES)
def test_a_study_that_was_charged_needs_no_name_and_takes_no_other(
    names: list[str], charged: str
) -> None:
    policy, history = _policy(names), _charged(charged)
    for other in {*names} - {charged}:
        with pytest.raises(SettingError, match=f"use --data-set {charged}"):
            choose_data_set(STUDY, history, policy, other)
    for said in (None, charged):
        if charged in names:
            assert choose_data_set(STUDY, history, policy, said).name == charged
        else:
            with pytest.raises(NoPolicyError, match=f"does not name data set {charged}"):
                choose_data_set(STUDY, history, policy, said)


def test_a_data_set_with_another_name_is_found_by_its_source_if_it_is_the_only_one() -> None:
    made = _charged("old").reservations[0]
    account = replace(made.request.account, source="f" * 64)
    history = history_of(replace(made, request=replace(made.request, account=account)))
    policy = _policy(["a", "b"])
    a, b = policy.data_sets
    renamed = replace(a, account=replace(account, data_set="a"))
    found = replace(policy, data_sets=(renamed, b))
    assert choose_data_set(STUDY, history, found, None) == renamed
    assert choose_data_set(STUDY, history, found, "a") == renamed
    with pytest.raises(SettingError, match="was charged to data set old"):
        choose_data_set(STUDY, history, found, "b")
    request = request_contribution(STUDY, account=renamed.account)
    assert admit_charge(history, request) == history.reservations[0]
    with pytest.raises(SettingError, match="the query of data set a has changed"):
        admit_charge(history, replace(request, query_sha256="0" * 64))
    both = replace(b, account=replace(account, data_set="b"))
    several = replace(policy, data_sets=(renamed, both))
    with pytest.raises(NoPolicyError, match="does not name data set old"):
        choose_data_set(STUDY, history, several, None)
    assert choose_data_set(STUDY, history, several, "b") == both


@given(names=st.lists(NAMES, unique=True, min_size=2))
def test_a_study_that_was_not_charged_asks_for_one_of_several(names: list[str]) -> None:
    policy, history = _policy(names), _charged("a")
    other = make_study("small", name="study-2")
    with pytest.raises(SettingError, match="choose with --data-set"):
        choose_data_set(other, history, policy, None)
    assert choose_data_set(other, history, policy, names[0]).name == names[0]


@pytest.fixture
def site(tmp_path: Path) -> OwnerSite:
    """A site that was charged for its study, and has one more data set since."""
    site, study = make_trained_site(tmp_path / "site")
    assert site.run("synthesize", study.name, "--rows", "200")[0] == 0
    _reserve(site, study)
    (site.folder / "more.csv").write_bytes((site.folder / "rows.csv").read_bytes())
    with (site.folder / "policy.yaml").open("a") as file:
        file.write('  more: {path: more.csv, epsilon: "10", delta: "0"}\n')
    return site


def _reserve(site: OwnerSite, study: Study) -> None:
    path, lock = ledger_files(site.folder)
    request = request_of(study, budget=Budget(BUDGET.epsilon, BUDGET.delta))
    with open_ledger(path, lock=lock) as ledger:
        ledger.reserve(request, release_id=bytes(16), now=NOW)


COMMAND = shlex.split("train site-test --target ill --method dp-svm --epsilon 0.5 --yes")


def test_one_more_data_set_changes_nothing_for_a_study_that_was_charged(site: OwnerSite) -> None:
    code, document = site.run(*COMMAND)
    assert code == 0, document
    assert document.get("data_set", "survey") == "survey"
    before = site.history
    assert before.data_sets == ("survey",)
    for line in (COMMAND, COMMAND[:4], ["report", "site-test"]):
        code, message = error_of(site.run(*line, "--data-set", "more"))
        assert (code, "was charged to data set survey" in message) == (10, True)
    assert site.history == before
