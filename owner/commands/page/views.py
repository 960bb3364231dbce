"""Values for pages, from a ledger and a policy: pure, and plain."""

from dataclasses import dataclass
from decimal import Decimal

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.study import Study
from dppca.owner.commands.budget_totals import population_budget
from dppca.owner.commands.page.jobs import Job
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.render.ledger import SiteBudgets
from dppca.owner.render.review import ContributionPreview
from dppca.owner.render.studies import Standing
from dppca.owner.site.policy import Policy

_ASSUMED = 24  # eigenvalues in a chart
_LITTLE = Decimal("0.001")  # epsilon, below which a budget counts as used up


@dataclass(frozen=True, slots=True)
class Sent:
    """Contribution that was charged.

    Attributes
    ----------
    time
        When it was charged, in ISO 8601 form.
    n_rows, n_bytes
        What it was computed from and its size; 0 until it is drawn, or if it was recovered; rows
        also where their number is secret.
    left, whole
        Epsilon of the lifetime budget; None if policy.yaml does not state it now.
    """

    time: str
    n_rows: int
    n_bytes: int
    epsilon: Decimal
    population: str
    left: Decimal | None
    whole: Decimal | None


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a budget that one release has spent; ``width`` is its share of what is spent."""

    name: str
    epsilon: str
    width: float


def budget_segments(budgets: SiteBudgets) -> dict[str, list[Segment]]:
    """Return the parts of each population's budget, in the order of their charges.

    Charges in zCDP do not add up as epsilons do: each part is as wide as its epsilon among all, and
    together they are as wide as what is spent.
    """
    parts: dict[str, list[Segment]] = {}
    for each in budgets.populations:
        own = [found for found in budgets.releases if found.population == each.name]
        total = float(sum(found.epsilon for found in own)) or 1.0
        scale = float(each.spent or 0) / total
        parts[each.name] = [
            Segment(
                found.model or found.study,
                decimal_text(found.epsilon),
                float(found.epsilon) * scale,
            )
            for found in own
        ]
    return parts


def find_used_up(budgets: SiteBudgets) -> list[str]:
    """Return the populations of whose lifetime budget as good as nothing is left."""
    return [
        each.name
        for each in budgets.populations
        if each.remaining is not None and each.remaining < _LITTLE
    ]


def find_sent(history: History, digest: str, policy: Policy | DppcaError) -> Sent | None:
    """Return the charge for a study, and what it left; None if nothing was charged."""
    charge = next((each for each in history.charges if each.request.request_digest == digest), None)
    if charge is None:
        return None
    request, stored = charge.request, history.commitment_for(digest)
    name, left, whole = request.account.population.name, None, None
    if isinstance(policy, Policy):
        budget = population_budget(name, policy, history)
        left, whole = budget.remaining, budget.epsilon
    return Sent(
        time=charge.time,
        n_rows=0 if stored is None else stored.n_rows,
        n_bytes=0 if stored is None else stored.payload_bytes,
        epsilon=request.price.epsilon,
        population=name,
        left=left,
        whole=whole,
    )


def contribution_steps(history: History, digest: str, job: Job) -> list[tuple[str, str]]:
    """Return the steps of a contribution, each `done`, `now` or empty, by the ledger and job."""
    charged = decide_step(history, digest) is not NextStep.RESERVE
    steps = [
        ("Read the rows", charged or job.step == "going on"),
        ("Charge the budget", charged),
        ("Draw the noise, and keep the bytes", history.commitment_for(digest) is not None),
        ("Send", history.is_held(digest)),
    ]
    now = next((place for place, (_, done) in enumerate(steps) if not done), len(steps))
    return [
        (step, "done" if done else "now" if place == now else "")
        for place, (step, done) in enumerate(steps)
    ]


def job_steps(job: Job) -> list[tuple[str, str]]:
    """Return the steps of other work, each `done`, `now` or empty; none where it names none."""
    return [
        (step, "done" if place < job.place else "now" if place == job.place else "")
        for place, step in enumerate(job.steps)
    ]


def sum_steps(
    study: Study, standing: Standing, record: OpenerRecord | None, *, verified: bool
) -> list[tuple[str, str, str]]:
    """Return the steps of a steward in an aggregate study: what, why, and `done`, `now` or empty.

    ``record`` is that of this site's opener key; None if it is no opener. ``verified`` is True if
    the keys of all owners are.
    """
    bound = record is not None and record.bound is not None
    opened = record is not None and record.is_done
    sent = standing.is_held
    opens = record is not None
    steps = [
        ("Give your key", "Only this site can sign for its name in the study.", True, True),
        (
            "Compare the digest",
            "The operator could have put in other keys and could then read your sums. Stewards who "
            "read the same 64 digits have the same document.",
            verified or sent,
            True,
        ),
        (
            "Contribute",
            "Your noised sums leave under masks, so nobody can read them alone.",
            sent,
            True,
        ),
        (
            "Vote",
            "With spare openers, all agree on one set of owners before anybody opens.",
            bound,
            opens and study.spares > 0,
        ),
        (
            "Open",
            "You take your masks away from the sum, once: no other set can be opened after it.",
            opened,
            opens,
        ),
        (
            "Fetch the components",
            "They are computed from the sum and verified here.",
            standing.has_components,
            True,
        ),
    ]
    wanted = [(what, why, done) for what, why, done, needed in steps if needed]
    now = next((place for place, each in enumerate(wanted) if not each[2]), len(wanted))
    return [
        (what, why, "done" if done else "now" if place == now else "")
        for place, (what, why, done) in enumerate(wanted)
    ]


def spectrum(seen: ContributionPreview) -> list[float]:
    """Return the forecast's assumed eigenvalues, in proportion to 1, 1/2, 1/3 ..., if any."""
    if seen.forecast is None:
        return []
    columns = min(seen.study.table.layout.n_columns, _ASSUMED)
    return [seen.forecast.assumed_first / rank for rank in range(1, columns + 1)]
