"""What the list of studies tells a steward to do, for every standing."""

from __future__ import annotations

from itertools import product

import pytest

from dppca.common.documents.messages import StudyState
from dppca.owner.commands.page.views import next_step
from dppca.owner.release.contribution import NextStep
from dppca.owner.render.studies import Standing


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (None, "refused"),
        (Standing(StudyState.ABORTED, is_held=True, step=NextStep.NOTHING), "without a result"),
        (Standing(StudyState.OPEN, is_held=True, step=NextStep.RESERVE), "dppca-owner doctor"),
        (Standing(StudyState.OPEN, is_held=False, step=NextStep.RESERVE), "what would leave"),
        (
            Standing(StudyState.OPEN, is_held=False, step=NextStep.RESERVE, uncovered="why"),
            "Not covered: why",
        ),
        (Standing(StudyState.OPEN, is_held=False, step=NextStep.DRAW), "go on with it"),
        (Standing(StudyState.OPEN, is_held=False, step=NextStep.SEND), "go on with it"),
        (Standing(StudyState.OPEN, is_held=True, step=NextStep.NOTHING), "wait for the other"),
        (
            Standing(StudyState.OPEN, is_held=True, step=NextStep.NOTHING, opens=True),
            "Come back then to open it",
        ),
        (
            Standing(StudyState.OPEN, is_held=False, step=NextStep.RESERVE, is_over=True),
            "deadline has passed",
        ),
        (Standing(StudyState.SEALED, is_held=True, step=NextStep.NOTHING), "waits for its openers"),
        (
            Standing(StudyState.SEALED, is_held=True, step=NextStep.NOTHING, opens=True),
            "what would be opened",
        ),
        (Standing(StudyState.DECOMPOSED, is_held=True, step=NextStep.NOTHING), "the components"),
        (Standing(StudyState.CLOSED, is_held=True, step=NextStep.NOTHING), "the components"),
    ],
)
def test_a_steward_is_told_what_to_do(standing: Standing | None, said: str) -> None:
    assert said in next_step(standing)


def test_nobody_who_may_not_contribute_any_more_is_told_to() -> None:
    for state, step, is_over in product(StudyState, NextStep, (True, False)):
        told = next_step(Standing(state, is_held=False, step=step, is_over=is_over))
        if "what would leave" in told:
            assert (state, step, is_over) == (StudyState.OPEN, NextStep.RESERVE, False)
