"""What pages say of a study, a ledger and a review: pure, from values to plain ones."""

from __future__ import annotations

from dppca.common.messages import StudyState
from dppca.owner.client.queries import StudySummary
from dppca.owner.commands.look import Look
from dppca.owner.commands.page.jobs import Job
from dppca.owner.ledger.chain import History
from dppca.owner.release.contribution import NextStep, decide_step

_ASSUMED = 24


def next_step(study: StudySummary, history: History) -> str:
    """What a steward may do about a study."""
    step = decide_step(history, study.digest)
    if study.state is StudyState.ABORTED:
        return "It was ended without a result."
    if study.state in (StudyState.DECOMPOSED, StudyState.CLOSED):
        return "Look at the components."
    if history.is_held(study.digest) or step is NextStep.NOTHING:
        return "This site has contributed: wait."
    if study.state is StudyState.SEALED:
        return "It takes no contribution any more."
    if step is NextStep.RESERVE:
        return "Waits for this site: look at what would leave."
    return "A contribution was charged and not finished: go on with it."


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
