"""Decisions before a contribution, from a study, the number of rows n and the ledger. Pure.

All inputs are public or already released figures: the study, the number of rows (public once
released), and the ledger. Nothing is computed from a row, so a steward may look at the results
as often as needed and change plans because of them, at no cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Self

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import BudgetExceededError, PrivacyError, StudyStateError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.composition import ComposedGuarantee, Round, compose_guarantee
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.promises import Promise, kept_promise
from dppca.common.kernel.privacy.release import calibrate, replaced_charge
from dppca.common.kernel.schema.units import Unit
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import (
    History,
    admit_charge,
    find_population_of_people,
    require_data_set,
)
from dppca.owner.ledger.entries import Recovery, ReleaseKind, ReleaseRequest, Reservation
from dppca.owner.ledger.populations import Account, Population, admits_total, remaining, spent
from dppca.owner.records.faults import CheckReport
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.site.policy import DataSet, Policy

if TYPE_CHECKING:
    from dppca.common.kernel.aggregation.terms import Terms

BYTES_PER_ENTRY = 8  # of a packed vector: int64


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """The lifetime budget of a population, before and after a release.

    An epsilon is None if no finite one describes the charges; the remaining one is for pure
    releases.
    """

    population: Annotated[str, "population that is charged"]
    who: Annotated[str, "the people, as policy.yaml says (site-only); empty if it does not"]
    tied_to: Annotated[tuple[str, ...], "populations that the charge counts for too"]
    promise: Annotated[Promise, "what it promises a person, and is priced by"]
    epsilon: Annotated[Decimal, "lifetime budget"]
    delta: Annotated[Decimal, "delta of the budget"]
    spent_before: Annotated[Decimal | None, "epsilon spent so far"]
    remaining_before: Annotated[Decimal | None, "epsilon left so far"]
    spent_after: Annotated[Decimal | None, "epsilon spent with the release"]
    remaining_after: Annotated[Decimal | None, "epsilon left with the release"]
    admitted: Annotated[bool, "whether the budgets of all of them cover it"]


@dataclass(frozen=True, slots=True)
class Review:
    """Exact content of a contribution, and its cost.

    With masks and seals ``n_bytes``, the size of the packed vector, is an upper limit. ``request``
    is the charge, the claim and the account; ``step`` is the next step of `contribute`; ``first``
    is the study that this one continues, None if there is none or its document is not known;
    ``read_otherwise`` the study of the data set's last release, if its cells were read in another
    way. ``people`` is what the study counts of people, None before they were read, or if it counts
    rows.
    """

    study: Study
    n_rows: int
    n_entries: int
    n_bytes: int
    request: ReleaseRequest
    calibration: Calibration
    budget_status: BudgetStatus
    step: NextStep
    first: Study | None = None
    read_otherwise: str | None = None
    people: int | None = None

    def with_read(self, n_rows: int, n_counted: int) -> Self:
        """Return it with the number of rows that were read, and the number that is released."""
        people = n_counted if self.study.table.unit is Unit.PERSON else None
        return replace(self, n_rows=n_rows, people=people)

    @property
    def n_counted(self) -> int | None:
        """Number that the study counts, of rows or of people; None before people were read."""
        return self.people if self.study.table.unit is Unit.PERSON else self.n_rows

    @property
    def federation(self) -> ComposedGuarantee:
        """Guarantee of all owners' releases together to one person, of `first` too."""
        first = None if self.first is None else Round(self.first, calibrate(self.first))
        return compose_guarantee(self.study, self.calibration, first=first)


def choose_data_set(study: Study, history: History, policy: Policy, name: str | None) -> DataSet:
    """The data set that a study was charged to, or else the one named.

    A charged data set is found by its name, or by its source if it has another name now. Raise
    `SettingError` if the study was charged to another data set, or if no name was given and there
    are several; raise `NoPolicyError` if the policy does not name it.
    """
    charged = next((c for c in history.charges if c.request.request_digest == study.digest), None)
    if charged is None:
        return policy.data_set(name)
    account = charged.request.account
    same_name = [each for each in policy.data_sets if each.name == account.data_set]
    moved = [each for each in policy.data_sets if account.has_rows_of(each.account)]
    own = same_name or moved
    if name is None and len(own) == 1:
        return own[0]
    if name is not None and all(each.name != name for each in (*same_name, *moved)):
        require_data_set(charged.request, name)
    return policy.data_set(name or account.data_set)


def request_contribution(
    study: Study, calibration: Calibration, *, account: Account
) -> ReleaseRequest:
    """Charge of a contribution to a study with its noise."""
    return ReleaseRequest.from_calibration(
        ReleaseKind.CONTRIBUTION,
        calibration,
        account=account,
        study=study.name,
        request_digest=study.digest,
        colluders=study.privacy.colluders,
        replaced=replaced_charge(study, calibration),
    )


def review(
    study: Study,
    history: History,
    *,
    n_rows: int,
    account: Account,
    terms: Terms | None = None,
    first: Study | None = None,
) -> Review:
    """Content and cost of a contribution of ``n_rows`` rows of an account's data set.

    ``first`` is the study that this one continues.
    ``terms`` are those of a study with ``trust: aggregate``.
    A study that the budget does not cover is reviewed too: `BudgetStatus.admitted` says so.
    """
    calibration = calibrate(study)
    request = request_contribution(study, calibration, account=account)
    n_entries = study.table.layout.n_entries
    n_bytes = n_entries * BYTES_PER_ENTRY
    if terms is not None:
        from dppca.common.kernel.aggregation.sum_messages import upload_limit

        n_bytes = upload_limit(terms)
    return Review(
        study=study,
        n_rows=n_rows,
        n_entries=n_entries,
        n_bytes=n_bytes,
        request=request,
        calibration=calibration,
        budget_status=compute_budget_status(history, request),
        step=decide_step(history, study.digest),
        first=first,
    )


def find_other_reading(history: History, request: ReleaseRequest) -> str | None:
    """Return the study of the data set's last release, if its cells were read in another way."""
    earlier = [
        charge.request
        for charge in history.charges
        if charge.request.data_set == request.data_set
        and charge.request.request_digest != request.request_digest
    ]
    if not earlier or earlier[-1].reading_sha256 == request.reading_sha256:
        return None
    return earlier[-1].study


def require_possible(
    planned: Review, history: History, state: StudyState, *, now: datetime
) -> None:
    """Refuse a contribution that cannot succeed, before the steward is asked or a charge is made.

    Stored bytes are always sent: the curator may have them without the site knowing. Raise
    `StudyStateError` if the study takes no more contributions, `TooManyRowsError` for more rows (or
    people, once they were read) than the site's part of the study's ``max_rows``, and
    `BudgetExceededError`, `SettingError` or `LedgerError` as
    `dppca.owner.ledger.chain.admit_charge` does.
    """
    study = planned.study
    if planned.step is NextStep.SEND:
        return
    if state is not StudyState.OPEN:
        raise StudyStateError(
            f"study {study.name} is {state.value} and takes no contribution any more; "
            "nothing was drawn or charged by this command"
        )
    if study.deadline_passed(now):
        raise StudyStateError(
            f"the deadline of study {study.name} has passed by this site's clock, "
            f"{now:%Y-%m-%d %H:%M} UTC, though the curator still waits: `dppca-owner doctor` "
            "compares the two clocks. Nothing was drawn or charged by this command"
        )
    if planned.n_counted is not None:
        study.require_room("this site", planned.n_counted)
    admit_charge(history, planned.request)


def require_keys(history: History, account: Account, counted: CheckReport) -> None:
    """Raise `PrivacyError` if rows have no key and a population of people is charged for them."""
    key, people = counted.key, find_population_of_people(history, account)
    if people is not None and key is not None and key.missing:
        raise PrivacyError(
            f"no {key.column} in {many(key.missing, 'rows')}: nobody knows whose they are, and "
            f"population {people} has unit: person in policy.yaml. Fill it in, or leave these rows "
            "out. Nothing was charged by this command"
        )


def require_sendable(history: History, stored: Reservation, account: Account) -> None:
    """Refuse to send a release for the first time if recovered charges left no budget for it.

    ``stored`` is a release that the curator does not hold, ``account`` that of its data set, by the
    policy now. Stored bytes are normally sent whatever the budget is now, for the curator may have
    them. Charges that were recovered after the bytes were stored differ: had they been known, this
    release would not have been drawn. Then `BudgetExceededError` is raised; the charge stands.
    """
    name = account.population.name
    later = any(
        isinstance(charge, Recovery) and charge.sequence > stored.sequence
        for charge in history.find_charges(name, account.populations)
    )
    populations = account.populations
    tied = history.tied_to(name, populations)
    if later and not all(
        admits_total(each.budget, history.total(each.name, populations))
        for each in (account.population, *tied)
    ):
        raise BudgetExceededError(
            f"{stored.request.title} was drawn before other charges of population {name} were "
            "recovered; the lifetime budget does not cover all of them, so it is not sent. Its "
            "charge stands; decide on a larger lifetime budget in policy.yaml to send it"
        )


def compute_budget_status(history: History, request: ReleaseRequest) -> BudgetStatus:
    """Budget without and with a release; a release that is charged already is part of both."""
    account, digest = request.account, request.request_digest
    budget = account.population.budget
    own, populations = account.population, account.populations
    tied, step = history.tied_to(own.name, populations), decide_step(history, digest)
    kept = kept_promise(request.relation)

    def total(population: Population, *, with_it: bool) -> PrivacyCost:
        """Sum under the promise of a population, or under the one that it has left."""
        name = population.name
        promise = history.promise(name, populations)
        if not with_it or step is not NextStep.RESERVE:
            return history.total(name, populations)
        promise = promise if kept.covers(promise) else kept
        return history.total(name, populations, promise) + request.spending.under(promise)

    before, after = total(own, with_it=False), total(own, with_it=True)
    fits = all(
        admits_total(each.budget, total(each, with_it=True))
        and history.promise(each.name, populations) is each.promise
        and kept.covers(each.promise)
        for each in (own, *tied)
    )
    return BudgetStatus(
        population=account.population.name,
        who=account.population.who,
        tied_to=tuple(each.name for each in tied),
        promise=history.promise(own.name, populations),
        epsilon=budget.epsilon,
        delta=budget.delta,
        spent_before=spent(budget, before),
        remaining_before=remaining(budget, before),
        spent_after=spent(budget, after),
        remaining_after=remaining(budget, after),
        admitted=fits or step in (NextStep.SEND, NextStep.NOTHING),
    )
