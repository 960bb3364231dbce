"""What a contribution would be, before it is one: pure decisions on a study, n and the ledger.

Everything here is computed from public or already released figures: the study, the number of rows
(public once released), and the ledger. Nothing is computed from a row, so a steward may look at it
as often as needed and change plans because of it, at no cost.

Forecast
--------
The noise edge (`common.numerics.edge`) is what the largest eigenvalue of the noise alone would be.
It is held against two spectra that are *assumptions*, not the site's:

* the largest total variance that the schema allows, ``T``: 1/4 for each numeric or binary column
  (half of its rows at either end), ``1 - 1/K`` for a categorical of K labels (all equally
  frequent), 1 for unit-ball rows (a vector of norm at most 1). If the edge is above ``T``, not
  even the best possible table has a component that stands out;
* eigenvalues in proportion to ``1/i``, ``i = 1 … p``, with sum ``T``: how many of them would
  stand above the edge.

The released mean is taken as 0 (the middle of every bound), and every owner as bringing as many
rows as this one, because only n is known here.

Limits: a real table has less variance than ``T``, often by far; the forecast says what cannot
work, not what will.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

import numpy as np

from common.conversation import StudyState
from common.errors import RangeError, StudyStateError
from common.numerics.edge import noise_edge
from common.numerics.rehearsal import largest_total_variance
from common.privacy.accounting import Budget, Charge
from common.privacy.federation import Guarantee, guarantee_of
from common.privacy.mechanisms import Calibration
from common.privacy.release import calibrate
from common.study import Study
from owner.ledger.chain import History, admit
from owner.ledger.entries import Wanted

_MAX_DRAWS, _MIN_DRAWS = 100, 8
_MAX_DRAWN = 1 << 22  # matrix entries in all draws: a forecast takes a second or two
BYTES_PER_ENTRY = 8


class Step(StrEnum):
    """What `contribute` has to do next for a study."""

    RESERVE = "reserve"
    """Charge it, then draw."""
    DRAW = "draw"
    """It is charged, but no bytes were kept: draw again under the same reservation."""
    SEND = "send"
    """Its bytes are stored: send them as they are, at no further charge."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Noise against assumed spectra; variances are in squared coded units.

    Attributes
    ----------
    noise_edge, draws
        And how many draws it was simulated from.
    largest_variance
        T, see the module.
    assumed_components
        How many of the assumed ``1/i`` eigenvalues are above the edge.
    assumed_first
        The largest of them.
    """

    noise_edge: float
    draws: int
    largest_variance: float
    assumed_first: float
    assumed_components: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A data set's budget before and after a study; None where no finite epsilon describes it.

    ``remaining`` is the epsilon that is left for pure releases.
    """

    budget: Budget
    spent_before: Decimal | None
    remaining_before: Decimal | None
    spent_after: Decimal | None
    remaining_after: Decimal | None
    admitted: bool


@dataclass(frozen=True, slots=True)
class Review:
    """Exactly what would leave, and what it would cost.

    Attributes
    ----------
    n_entries, n_bytes
        Of the packed vector.
    wanted
        The charge, the claim, and the data set it is for.
    calibration
        The noise.
    step
        What `contribute` would do next.
    """

    study: Study
    n_rows: int
    n_entries: int
    n_bytes: int
    wanted: Wanted
    calibration: Calibration
    standing: Standing
    step: Step

    @property
    def federation(self) -> Guarantee:
        """What all owners' releases together promise to one person, if all of them take part."""
        claim = (self.calibration.epsilon, self.calibration.delta)
        return guarantee_of(self.study, dict.fromkeys(self.study.owners, claim))


def wanted_for(study: Study, *, data_set: str, budget: Budget) -> tuple[Wanted, Calibration]:
    """The charge a study asks for, and the noise it is for; `RangeError` as in `calibrate`."""
    calibration = calibrate(study)
    return (
        Wanted(
            data_set=data_set,
            study=study.name,
            study_digest=study.digest,
            mechanism=calibration.mechanism.value,
            charge=calibration.charge,
            epsilon=calibration.epsilon,
            delta=calibration.delta,
            budget=budget,
        ),
        calibration,
    )


def next_step(history: History, study_digest: str) -> Step:
    """What the ledger says is to be done for a study."""
    if history.reservation_for(study_digest) is None:
        return Step.RESERVE
    return Step.DRAW if history.commitment_for(study_digest) is None else Step.SEND


def review(study: Study, history: History, *, n_rows: int, data_set: str, budget: Budget) -> Review:
    """What contributing ``n_rows`` rows of a data set would release and cost.

    A study that the budget does not cover is reviewed too: `Standing.admitted` says so.
    """
    wanted, calibration = wanted_for(study, data_set=data_set, budget=budget)
    n_entries = study.table.layout.n_entries
    return Review(
        study=study,
        n_rows=n_rows,
        n_entries=n_entries,
        n_bytes=n_entries * BYTES_PER_ENTRY,
        wanted=wanted,
        calibration=calibration,
        standing=standing_of(history, wanted),
        step=next_step(history, study.digest),
    )


def require_possible(found: Review, history: History, state: StudyState, *, now: datetime) -> None:
    """Refuse what is bound to be refused, before anybody is asked or anything is charged.

    Bytes that are stored are always sent: the curator may have them and the site not know.

    Raises
    ------
    StudyStateError
        The study takes no more contributions.
    RangeError
        More rows than the study allows.
    BudgetExceededError, SettingError, LedgerError
        See `owner.ledger.chain.admit`.
    """
    if found.step is Step.SEND:
        return
    if state is not StudyState.OPEN:
        message = (
            f"study {found.study.name} is {state.value} and takes no contribution any more; "
            "nothing was drawn or charged by this command"
        )
        raise StudyStateError(message)
    if found.study.deadline_passed(now):
        message = (
            f"the deadline of study {found.study.name} has passed; nothing was drawn or charged by "
            "this command"
        )
        raise StudyStateError(message)
    if found.n_rows > found.study.max_rows:
        message = (
            f"{found.n_rows} rows, but study {found.study.name} allows {found.study.max_rows} of "
            "all owners together: ask the operator for a study with a larger max_rows"
        )
        raise RangeError(message)
    admit(history, found.wanted)


def forecast(study: Study, *, n_rows: int) -> Forecast:
    """Noise edge of a study whose owners bring ``n_rows`` rows each; see the module."""
    layout, calibration = study.table.layout, calibrate(study)
    draws = min(_MAX_DRAWS, max(_MIN_DRAWS, _MAX_DRAWN // layout.n_columns**2))
    edge = noise_edge(
        layout,
        mechanism="laplace" if calibration.sigma_squared is None else "gaussian",
        scale=calibration.width,
        owner_rows=[n_rows] * len(study.owners),
        mean=np.zeros(layout.n_columns) if layout.with_sums else None,
        covariance=study.covariance,
        seed=int(study.digest[:16], 16),
        draws=draws,
    )
    total = largest_total_variance(study.table.layout)
    share = 1.0 / np.arange(1, layout.n_columns + 1)
    spectrum = total * share / share.sum()
    return Forecast(
        noise_edge=edge.value,
        draws=edge.draws,
        largest_variance=total,
        assumed_first=float(spectrum[0]),
        assumed_components=int(np.count_nonzero(spectrum > edge.value)),
    )


def standing_of(history: History, wanted: Wanted) -> Standing:
    """Budget without and with a release; one that is charged already is part of both."""
    budget, before = wanted.budget, history.total(wanted.data_set)
    reserved = history.reservation_for(wanted.study_digest)
    after = before if reserved is not None else before + wanted.charge
    return Standing(
        budget=budget,
        spent_before=spent(budget, before),
        remaining_before=remaining(budget, before),
        spent_after=spent(budget, after),
        remaining_after=remaining(budget, after),
        admitted=reserved is not None or _admits(budget, after),
    )


def spent(budget: Budget, total: Charge) -> Decimal | None:
    """Epsilon of a total at the budget's delta; None where there is none (rho at delta 0)."""
    return None if _has_no_epsilon(budget, total) else budget.spent(total)


def remaining(budget: Budget, total: Charge) -> Decimal | None:
    """Epsilon left for pure releases; None as in `spent`."""
    return None if _has_no_epsilon(budget, total) else budget.remaining(total)


def _admits(budget: Budget, total: Charge) -> bool:
    return not _has_no_epsilon(budget, total) and budget.admits(total)


def _has_no_epsilon(budget: Budget, total: Charge) -> bool:
    return total.rho > 0 and budget.delta == 0
