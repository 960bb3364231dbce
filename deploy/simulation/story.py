"""The demo's first minute: twelve lines, from its report and further draws of its noise.

No line has an answer that the noise could have made up: an answer is told if its interval is
narrower than half of what it could be, accuracies if all draws beat the commonest answer.
"""

from collections.abc import Sequence
from math import exp
from pathlib import Path
from textwrap import fill

from dppca.common.analysis.estimates.face import Estimates, estimates
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.documents.counts import many
from dppca.common.verification.estimation import read_published
from dppca.deploy.simulation.demo import VISITS
from dppca.deploy.simulation.evaluate import Utility
from dppca.deploy.simulation.redraws import Draw
from dppca.deploy.simulation.run_report import SimulationReport

_WIDTH = 88  # characters of a line
MOST_LINES = 12  # of that width
_MOST_VISITS = 52.0  # the bound of the demo's study
_HEALTH = "hlthg"
_WIDEST = 0.5  # of what an answer can be


def ask_demo(components: Path) -> Estimates:
    """Return what answers questions from the demo's result file, which is verified first."""
    return estimates(read_published(components, KnownParties(None), first=None))


def make_story(
    report: SimulationReport,
    draws: Sequence[Draw],
    asked: Estimates,
    *,
    width: int | None = None,
) -> str:
    """Tell the result to a first-time reader, in `MOST_LINES` where the terminal is wide enough.

    ``report`` is about the demo's study; ``draws``, at least one, are from
    `dppca.deploy.simulation.redraws.draw_again`; ``asked`` is `ask_demo`'s; ``width`` is the
    terminal's, None without one.
    """
    utility, privacy = report.utility, report.privacy
    assert utility is not None  # noqa: S101 - the demo has a target
    claimed = privacy.federation
    factor = exp(float(claimed.epsilon))
    found = [*_tell_answers(asked), f"{_directions(report.components.above_noise)}."]
    parts = [
        f"{many(privacy.n, privacy.counts, ',')} of {many(len(report.owners), 'owners')}: "
        "noise in the sums hides each, and nobody was shown a row.",
        f"WHAT WAS FOUND. {' '.join(found)}",
        f"WHAT IT IS GOOD FOR. {_tell_utility(report.target or '', utility, draws)}",
        f"WHAT IT COST. Epsilon {claimed.epsilon}, delta {claimed.delta}: had all years of any "
        f"one person been different, no result would be more than {factor:.1f} times as likely, "
        "plus delta. It holds if nobody has rows at two owners.",
        f"THE REST. {report.files['page']} has all of it. More answers cost no privacy:",
    ]
    columns = min(_WIDTH, width or _WIDTH)
    return "\n".join([*(fill(part, columns) for part in parts), *report.answers[:1]])


def _tell_answers(asked: Estimates) -> list[str]:
    """Tell the answers that the noise leaves."""
    told = []
    visits, health = asked.mean(VISITS), asked.proportion(_HEALTH)
    (low, high), share = visits.conf_int()[0], health.conf_int()[-1]
    if visits.estimates[0].estimate is not None and high - low < _WIDEST * _MOST_VISITS:
        told.append(
            f"They saw a physician {visits.estimates[0].estimate:.1f} times a year (95 % interval: "
            f"{low:.1f} to {high:.1f})."
        )
    if health.estimates[-1].estimate is not None and share[1] - share[0] < _WIDEST:
        told.append(
            f"{health.estimates[-1].estimate:.0%} call their health good ({share[0]:.0%} to "
            f"{share[1]:.0%})."
        )
    return told


def _directions(count: int) -> str:
    if count == 0:
        return "No pattern in how they differ exceeds the noise"
    if count == 1:
        return "1 pattern in how they differ exceeds the noise"
    return f"{count} patterns in how they differ exceed the noise"


def _tell_utility(target: str, utility: Utility, draws: Sequence[Draw]) -> str:
    """Tell what synthetic rows teach, over all draws of the noise."""
    accuracies = [
        utility.tstr_accuracy_decoded,
        *(draw.utility.tstr_accuracy_decoded for draw in draws),
    ]
    least, most = min(accuracies), max(accuracies)
    made = "Each owner published rows of made-up people."
    if least <= utility.majority:
        return f"{made} {utility.verdict}"
    return (
        f"{made} A program that learned from them is right about who has a deductible "
        f"({target}) in {least:.1%} to {most:.1%} of other real rows ({len(accuracies)} draws of "
        f"noise); from real rows, in {utility.trtr_accuracy:.1%}; the commonest answer, in "
        f"{utility.majority:.1%}."
    )
