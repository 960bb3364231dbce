"""What would be released, at what cost and from which data set, and what comes next.

A study that was charged knows its data set: commands neither ask for it nor take another.
"""

import shlex
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import (
    BudgetExceededError,
    NoPolicyError,
    PrivacyError,
    SettingError,
    StudyStateError,
    TooManyRowsError,
)
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import History, admit_charge
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Delivery, Reservation, commitment, time_text
from dppca.owner.records.faults import CheckReport, KeyReport
from dppca.owner.records.file_locations import local_files
from dppca.owner.release.contribution import (
    choose_data_set,
    request_contribution,
    require_keys,
    require_possible,
    review,
)
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.site.policy import DataSet, Policy
from tests.support.ledgers import BUDGET, NOW, account_of, history_of, ledger_files, request_of
from tests.support.sites import OwnerSite, error_of, make_trained_site
from tests.support.studies import make_study

ID = bytes(16)
STUDY = make_study("small")
EMPTY = History()
STEPS = (
    Reservation(1, time_text(NOW), ID, request_of(STUDY)),
    commitment(sequence=2, now=NOW, release_id=ID, n_rows=9, payload=b"", receipt=b""),
    Delivery(3, time_text(NOW), ID),
)
RESERVED, COMMITTED, SENT = (history_of(*STEPS[:n]) for n in (1, 2, 3))


def _review(history: History = EMPTY, *, budget: Budget = BUDGET, n_rows: int = 1000) -> Any:
    return review(STUDY, history, n_rows=n_rows, account=account_of(budget=budget))


def test_a_study_beyond_the_budget_is_reviewed_and_not_admitted() -> None:
    found = _review(budget=Budget(Decimal("0.5"), Decimal(0)))
    assert not found.budget_status.admitted
    assert found.budget_status.remaining_after == 0
    with pytest.raises(BudgetExceededError):
        require_possible(found, EMPTY, StudyState.OPEN, now=NOW)


def test_a_gaussian_study_has_no_standing_where_delta_is_zero() -> None:
    study = make_study("small", name="gauss", delta="1e-6")
    budget = Budget(Decimal(9), Decimal(0))
    standing = review(study, EMPTY, n_rows=9, account=account_of(budget=budget)).budget_status
    assert (standing.spent_after, standing.admitted) == (None, False)


@pytest.mark.parametrize(
    ("history", "step"),
    [
        (EMPTY, NextStep.RESERVE),
        (RESERVED, NextStep.DRAW),
        (COMMITTED, NextStep.SEND),
        (SENT, NextStep.SEND),
    ],
)
def test_the_ledger_says_what_is_next(history: History, step: NextStep) -> None:
    assert decide_step(history, STUDY.digest) is step


@pytest.mark.parametrize("state", [s for s in StudyState if s is not StudyState.OPEN])
@pytest.mark.parametrize("history", [EMPTY, RESERVED])
def test_nothing_is_charged_or_drawn_for_a_study_that_is_not_open(
    history: History, state: StudyState
) -> None:
    with pytest.raises(StudyStateError, match=state.value):
        require_possible(_review(history), history, state, now=NOW)


@pytest.mark.parametrize("state", list(StudyState))
@pytest.mark.parametrize("history", [COMMITTED, SENT])
def test_stored_bytes_are_sent_in_every_state(history: History, state: StudyState) -> None:
    assert require_possible(_review(history), history, state, now=NOW) is None


def test_more_rows_than_the_study_allows_are_refused_before_a_charge() -> None:
    study = make_study("small", max_rows=32, owners=["north", "south", "west"])
    most, above = (review(study, EMPTY, n_rows=n, account=account_of()) for n in (10, 11))
    assert require_possible(most, EMPTY, StudyState.OPEN, now=NOW) is None
    with pytest.raises(TooManyRowsError, match=r"11 rows, .* 10 from each .* max_rows of 33 or"):
        require_possible(above, EMPTY, StudyState.OPEN, now=NOW)


def test_a_secret_number_of_rows_is_not_in_the_refusal() -> None:
    study = make_study("small", neighbours="added", owners=["north", "south", "west"])
    small = study.model_copy(update={"max_rows": 9000})  # no file may say so
    found = review(study, EMPTY, n_rows=4711, account=account_of())
    with pytest.raises(TooManyRowsError, match="on which side of the limit it is") as caught:
        require_possible(replace(found, study=small), EMPTY, StudyState.OPEN, now=NOW)
    assert not any(str(n) in str(caught.value) for n in (4711, 3 * 4711))


def test_room_is_for_people_where_the_study_counts_people() -> None:
    study = make_study("small", max_rows=30, unit="person", max_rows_per_person=None)
    unread = review(study, EMPTY, n_rows=1000, account=account_of())
    for planned in (unread, unread.with_read(1000, 30)):
        assert require_possible(planned, EMPTY, StudyState.OPEN, now=NOW) is None
    with pytest.raises(TooManyRowsError, match=r"this site has 31 people, .* at most 30 from each"):
        require_possible(unread.with_read(1000, 31), EMPTY, StudyState.OPEN, now=NOW)


def test_nothing_is_charged_for_a_study_whose_deadline_has_passed() -> None:
    study = make_study("small", deadline=NOW)
    found = review(study, EMPTY, n_rows=9, account=account_of())
    with pytest.raises(StudyStateError, match="deadline"):
        require_possible(found, EMPTY, StudyState.OPEN, now=NOW)


@pytest.mark.parametrize("counts_people", [True, False])
def test_rows_without_a_key_are_refused_where_people_are_promised(*, counts_people: bool) -> None:
    account = account_of(key="pid")
    of_people = replace(account.population, counts_people=counts_people)
    account = replace(account, population=of_people)
    whole = CheckReport(5, 0, {}, {}, (), key=KeyReport("pid", 1, 1, 0))
    lacking = replace(whole, key=KeyReport("pid", 1, 1, 2))
    require_keys(EMPTY, account, whole)
    if counts_people:
        with pytest.raises(PrivacyError, match="no pid in 2 rows: nobody knows whose"):
            require_keys(EMPTY, account, lacking)
    else:
        require_keys(EMPTY, account, lacking)


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
    request = request_contribution(STUDY, calibrate(STUDY), account=renamed.account)
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
        file.write("  more: {population: people, path: more.csv}\n")
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
