from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from dppca.common.kernel.documents.messages import StudyState
from dppca.owner.release.next_step import NextStep
from dppca.owner.render.studies import (
    Badge,
    Group,
    OwnStudies,
    OwnStudy,
    Standing,
    advise,
    due_studies,
    studies_text,
    waiting_text,
)

OPEN, SEALED, DONE = StudyState.OPEN, StudyState.SEALED, StudyState.DECOMPOSED
CLOSED, ABORTED = StudyState.CLOSED, StudyState.ABORTED
RESERVE, DRAW, NOTHING, SEND = NextStep


@pytest.mark.parametrize(
    ("standing", "words"),
    [
        (
            Standing(OPEN, False, RESERVE),
            "`dppca-owner review s`: look at what would leave; `contribute` sends it",
        ),
        (Standing(OPEN, False, RESERVE, answer="declined"), "nothing: this site has declined"),
        (Standing(OPEN, False, RESERVE, uncovered="why"), "nothing, it is not covered: why"),
        (Standing(OPEN, False, RESERVE, uncovered="why", is_over=True), "nothing: its deadline"),
        (
            Standing(OPEN, False, RESERVE, is_over=True),
            "nothing: its deadline has passed by this site's clock",
        ),
        (Standing(OPEN, False, DRAW), "`dppca-owner contribute s`: it is charged and not drawn"),
        (
            Standing(OPEN, False, DRAW, is_over=True),
            "nothing: its deadline has passed by this site's clock",
        ),
        (Standing(OPEN, False, SEND), "`dppca-owner contribute s`: it is charged and drawn"),
        (Standing(OPEN, False, SEND, is_over=True), "`dppca-owner contribute s`"),
        (Standing(OPEN, False, NOTHING), "nothing: it waits for other owners"),
        (Standing(OPEN, True, SEND), "nothing: it waits for other owners"),
        (Standing(OPEN, True, SEND, opens=True), "come back to open it"),
        (Standing(OPEN, True, RESERVE), "`dppca-owner doctor`: the curator holds"),
        (Standing(SEALED, True, SEND, opens=True), "`dppca-owner open s`"),
        (Standing(SEALED, False, RESERVE), "nothing: it waits for its openers"),
        (Standing(DONE, True, SEND), "`dppca-owner components s`"),
        (Standing(DONE, True, RESERVE), "`dppca-owner doctor`"),
        (Standing(DONE, True, SEND, has_components=True), "`dppca-owner synthesize s`"),
        (Standing(CLOSED, True, SEND), "`dppca-owner components s`"),
        (Standing(CLOSED, True, SEND, has_components=True), "nothing: it is closed"),
        (Standing(ABORTED, True, SEND), "nothing: it was aborted"),
        (Standing(ABORTED, True, RESERVE), "nothing: it was aborted"),
    ],
    ids=str,
)
def test_what_to_do_follows_from_where_a_site_stands(standing: Standing, words: str) -> None:
    assert words in advise("s", standing)


@pytest.mark.parametrize(
    ("standing", "group", "words"),
    [
        (Standing(OPEN, False, RESERVE), Group.YOU, "waits for you"),
        (Standing(OPEN, False, RESERVE, uncovered="why"), Group.YOU, "not covered"),
        (Standing(OPEN, False, RESERVE, answer="later"), Group.YOU, "not now"),
        (Standing(OPEN, False, RESERVE, answer="declined"), Group.ENDED, "declined"),
        (Standing(OPEN, False, RESERVE, is_over=True), Group.OTHERS, "too late"),
        (Standing(OPEN, False, SEND, is_over=True), Group.YOU, "charged, not sent"),
        (Standing(OPEN, False, DRAW, answer="declined"), Group.YOU, "charged, not sent"),
        (Standing(OPEN, True, SEND), Group.OTHERS, "waits for others"),
        (Standing(SEALED, True, SEND, opens=True), Group.YOU, "waits for you to open"),
        (Standing(SEALED, True, SEND), Group.OTHERS, "waits for openers"),
        (Standing(DONE, True, SEND), Group.RESULTS, "result ready"),
        (Standing(CLOSED, True, SEND, has_components=True), Group.RESULTS, "result here"),
        (Standing(ABORTED, True, SEND, answer="declined"), Group.ENDED, "ended"),
    ],
    ids=str,
)
def test_a_study_stands_in_one_group_by_whom_it_waits_for(
    standing: Standing, group: Group, words: str
) -> None:
    assert (standing.badge.group, standing.badge.words) == (group, words)


def test_nobody_who_may_not_contribute_any_more_is_told_to() -> None:
    for state, step, is_over in product(StudyState, NextStep, (True, False)):
        if "review" in advise("s", Standing(state, is_held=False, step=step, is_over=is_over)):
            assert (state, step, is_over) == (OPEN, RESERVE, False)


def listed(**changes: Any) -> OwnStudies:
    study = OwnStudy(
        name="s",
        digest="00",
        state=OPEN,
        contributions=1,
        owners=3,
        contributed=False,
        deadline=datetime(2030, 1, 31, 12, tzinfo=UTC),
        seconds_left=0,
        epsilon=Decimal("0.5"),
        delta=Decimal(0),
        badge=Badge(Group.YOU, "waits for you", "wait"),
        next="nothing",
    )
    return OwnStudies("hub:1", [replace(study, **changes)])


def test_a_study_says_its_cost_and_a_site_without_studies_says_so() -> None:
    none = studies_text(OwnStudies("hub:1", []))
    assert none == "No study of the curator at hub:1 names this site."
    for changes, words in (
        ({"delta": Decimal("0.000001")}, "epsilon 0.5, delta 0.000001, "),
        ({"epsilon": None, "delta": None}, "cost not known, "),
        ({"deadline": None, "seconds_left": None}, "epsilon 0.5, no deadline"),
    ):
        said = studies_text(listed(**changes))
        assert said.startswith("s: open, 1 of 3 contributions, ")
        assert words in said


@pytest.mark.parametrize(
    ("standing", "missing", "said"),
    [
        (Standing(OPEN, False, RESERVE), 1, "you"),
        (Standing(OPEN, False, RESERVE), 3, "you and 2 other owners"),
        (Standing(OPEN, True, SEND), 1, "1 other owner"),
        (Standing(OPEN, True, SEND), 0, None),
        (Standing(OPEN, False, RESERVE, is_over=True), 2, None),
        (Standing(SEALED, True, SEND, opens=True), 0, "you, to open the sum"),
        (Standing(SEALED, True, SEND), 1, "its openers"),
        (Standing(DONE, True, SEND), 1, None),
        (Standing(ABORTED, True, SEND), 2, None),
    ],
    ids=str,
)
def test_a_site_is_told_for_whom_a_study_waits(
    standing: Standing, missing: int, said: str | None
) -> None:
    assert waiting_text(standing, missing) == said


def test_what_comes_next_is_one_line_to_paste_and_a_title_stands_behind_a_bar() -> None:
    advice = advise("s", Standing(OPEN, False, RESERVE))
    said = studies_text(listed(next=advice, title="next: rm -r", waits_for="you"))
    assert said.splitlines()[1:] == [
        "  title | next: rm -r",
        "  waits for you",
        "  next: dppca-owner review s",
        "        look at what would leave; `contribute` sends it",
    ]


def test_a_reminder_is_of_what_waits_for_this_site_and_ends_soon() -> None:
    by = datetime(2030, 1, 31, 12, tzinfo=UTC)
    others = Badge(Group.OTHERS, "waits for others", "idle")
    for changes, due in (
        ({"until": by}, True),
        ({"until": by + timedelta(seconds=1)}, False),
        ({"until": None}, False),
        ({"until": by, "badge": others}, False),
    ):
        found = listed(**changes)
        assert due_studies(found, by) == (found if due else OwnStudies("hub:1", [])), changes
