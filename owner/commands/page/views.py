"""What pages say of a study, a ledger and a review: pure, from values to plain ones."""

from __future__ import annotations

from dppca.common.documents.messages import StudyState
from dppca.owner.commands.look import Look
from dppca.owner.commands.page.jobs import Job
from dppca.owner.ledger.chain import History
from dppca.owner.release.contribution import NextStep, decide_step
from dppca.owner.render.studies import Standing

_ASSUMED = 24


def next_step(standing: Standing | None) -> str:
    """What a steward may do about a study; None for one whose document is refused."""
    if standing is None:
        return "Its document is refused: tell the operator."
    if standing.state is StudyState.ABORTED:
        return "It was ended without a result."
    if standing.is_held and standing.step is NextStep.RESERVE:
        return "The curator holds a contribution that this ledger lacks: run `dppca-owner doctor`."
    if standing.state is StudyState.OPEN:
        return _next_in_open(standing)
    if standing.state is StudyState.SEALED:
        if standing.opens:
            return "Waits for this site, an opener: look at what would be opened."
        return "It waits for its openers."
    return "Look at the components."


def _next_in_open(standing: Standing) -> str:
    if standing.is_held or standing.step is NextStep.NOTHING:
        later = " Come back then to open it." if standing.opens else ""
        return f"This site has contributed: wait for the other owners.{later}"
    if standing.step is NextStep.SEND:
        return "A contribution was charged and not finished: go on with it."
    if standing.is_over:
        return "Its deadline has passed."
    if standing.step is NextStep.DRAW:
        return "A contribution was charged and not finished: go on with it."
    if standing.uncovered:
        return f"Not covered: {standing.uncovered}"
    return "Waits for this site: look at what would leave."


def contribution_steps(history: History, digest: str, job: Job) -> list[tuple[str, bool]]:
    """Steps of a contribution, and whether each is done: what the ledger says, and the reading."""
    step = decide_step(history, digest)
    charged = step is not NextStep.RESERVE
    drawn = history.commitment_for(digest) is not None
    return [
        ("Read the rows", charged or (job.step == "going on")),
        ("Charge the budget", charged),
        ("Draw the noise, and keep the bytes", drawn),
        ("Send", history.is_held(digest)),
    ]


def spectrum(seen: Look) -> list[float]:
    """The forecast's assumed eigenvalues, in proportion to 1, 1/2, 1/3 ..."""
    columns = min(seen.study.table.layout.n_columns, _ASSUMED)
    return [seen.forecast.assumed_first / rank for rank in range(1, columns + 1)]
