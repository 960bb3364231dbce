"""Steps and a spectrum for pages: pure, from values to plain ones."""

from __future__ import annotations

from dppca.owner.commands.page.jobs import Job
from dppca.owner.commands.preview import ContributionPreview
from dppca.owner.ledger.chain import History
from dppca.owner.release.contribution import NextStep, decide_step

_ASSUMED = 24


def contribution_steps(history: History, digest: str, job: Job) -> list[tuple[str, bool]]:
    """Return the steps of a contribution, each with True if the ledger or the job shows it done."""
    step = decide_step(history, digest)
    charged = step is not NextStep.RESERVE
    drawn = history.commitment_for(digest) is not None
    return [
        ("Read the rows", charged or (job.step == "going on")),
        ("Charge the budget", charged),
        ("Draw the noise, and keep the bytes", drawn),
        ("Send", history.is_held(digest)),
    ]


def spectrum(seen: ContributionPreview) -> list[float]:
    """Return the forecast's assumed eigenvalues, in proportion to 1, 1/2, 1/3 ..., if any."""
    if seen.forecast is None:
        return []
    columns = min(seen.study.table.layout.n_columns, _ASSUMED)
    return [seen.forecast.assumed_first / rank for rank in range(1, columns + 1)]
