"""What pages say of budgets, of a contribution and of a steward's steps follows from the ledger."""

import time
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from dppca.common.kernel.errors import NoPolicyError
from dppca.owner.commands.page.jobs import Job
from dppca.owner.commands.page.views import (
    budget_segments,
    contribution_steps,
    find_sent,
    find_used_up,
    job_steps,
)
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Delivery, Reservation, commitment, time_text
from dppca.owner.render.ledger import LedgerState, PopulationBudget, SiteBudgets, adds_up_to_less
from tests.support.ledgers import NOW, history_of, request_of
from tests.support.studies import make_study

ID, STUDY = b"1" * 16, make_study("small")
STEPS: Any = (
    Reservation(1, time_text(NOW), ID, request_of(STUDY)),
    commitment(sequence=2, now=NOW, release_id=ID, n_rows=40, payload=bytes(8), receipt=b""),
    Delivery(3, time_text(NOW), ID),
)
EMPTY = History()
RESERVED, COMMITTED, SENT = (history_of(*STEPS[:n]) for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("history", "job_step", "now"),
    [
        (EMPTY, "starting", 0),
        (EMPTY, "going on", 1),
        (RESERVED, "going on", 2),
        (COMMITTED, "Sending", 3),
        (SENT, "going on", 4),
    ],
)
def test_the_present_step_is_the_first_that_is_not_done(
    history: History, job_step: str, now: int
) -> None:
    steps = contribution_steps(history, STUDY.digest, Job("s", "It", step=job_step))
    assert [standing for _, standing in steps] == [
        *now * ["done"],
        *["now", "", "", ""][: 4 - now],
    ]


def test_what_was_sent_is_what_the_ledger_says() -> None:
    gone = NoPolicyError("no policy")
    assert find_sent(EMPTY, STUDY.digest, gone) is None
    for history, rows, size in ((RESERVED, 0, 0), (SENT, 40, 8)):
        sent = find_sent(history, STUDY.digest, gone)
        assert sent is not None
        assert (sent.n_rows, sent.n_bytes, sent.left) == (rows, size, None)
        assert sent.epsilon == request_of(STUDY).price.epsilon


def _budgets(*epsilons: str, spent: str, remaining: str) -> SiteBudgets:
    people = PopulationBudget(
        name="patients",
        tied_to=(),
        charged_epsilon=Decimal(0),
        charged_rho=Decimal(0),
        epsilon=Decimal(3),
        spent=Decimal(spent),
        remaining=Decimal(remaining),
    )
    releases: Any = [
        SimpleNamespace(population="patients", model=None, study=f"s{n}", epsilon=Decimal(each))
        for n, each in enumerate(epsilons)
    ]
    return SiteBudgets(
        ledger=LedgerState(path="", entries=0, head=b""),
        populations=(people,),
        data_sets=(),
        releases=tuple(releases),
        disowned=(),
        openings=(),
    )


def test_a_budget_has_a_segment_for_each_release_as_wide_together_as_what_is_spent() -> None:
    (segments,) = budget_segments(_budgets("1", "0.5", spent="1.2", remaining="1.8")).values()
    assert [(each.name, each.epsilon) for each in segments] == [("s0", "1"), ("s1", "0.5")]
    assert [each.width for each in segments] == pytest.approx([0.8, 0.4])
    assert budget_segments(_budgets(spent="0", remaining="3")) == {"patients": []}


def test_a_budget_of_which_next_to_nothing_is_left_is_used_up() -> None:
    assert find_used_up(_budgets("3", spent="2.9999", remaining="0.0001")) == ["patients"]
    assert find_used_up(_budgets("1", spent="1", remaining="2")) == []


def test_the_time_that_is_left_follows_from_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    now, job = [100.0], Job("s", "It")
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with job.progress("Reading rows", 1000, unit="rows") as bar:
        bar.advance(250)
        now[0] = 100.5
        assert (job.share, job.time_left) == (25, None)
        now[0] = 104.0
        assert job.time_left == timedelta(seconds=12)


def test_work_that_names_its_steps_shows_which_have_ended() -> None:
    job = Job("s", "It", steps=("Draw", "Read", "Compare"))
    assert job_steps(job) == [("Draw", "now"), ("Read", ""), ("Compare", "")]
    for step in ("Draw", "Read"):
        with job.progress(step, 10, unit=""):
            pass
    assert job_steps(job) == [("Draw", "done"), ("Read", "now"), ("Compare", "")]
    with job.progress("Another", 10, unit=""):
        assert job_steps(job)[1] == ("Read", "now")
    assert job_steps(Job("s", "It")) == []


def test_that_gaussian_costs_add_up_to_less_is_said_where_they_do() -> None:
    assert adds_up_to_less(_budgets("1", "0.5", spent="1.2", remaining="1.8"))
    assert not adds_up_to_less(_budgets("1", "0.5", spent="1.5", remaining="1.5"))
    assert not adds_up_to_less(_budgets(spent="0", remaining="3"))
