"""Reasons why `contribute` would refuse, for every command that shows them in advance."""

from collections.abc import Iterator

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import DppcaError, NoPolicyError
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, Trust
from dppca.owner.ledger.chain import History, admit_charge
from dppca.owner.ledger.pins import require_pinned
from dppca.owner.records.faults import CheckReport, require_rows_of_people
from dppca.owner.release.contribution import (
    Review,
    request_contribution,
    require_keys,
    require_possible,
)
from dppca.owner.release.next_step import NextStep
from dppca.owner.site.agreement import find_refusal, find_unsaid
from dppca.owner.site.policy import DataSet, Policy


def find_refusals(
    planned: Review,
    state: StudyState,
    data_set: DataSet,
    history: History,
    counted: CheckReport | None = None,
    *,
    owner: str,
) -> tuple[DppcaError, ...]:
    """Return why `contribute` would refuse: by the policy's rule and by `require_possible`.

    And by `require_pinned`, for this site, ``owner``; and by `require_rows_of_people` and
    `require_keys`, if rows were ``counted``.
    """
    if planned.step is NextStep.SEND:
        return ()
    found = [*_refused_by_rule(planned.study, data_set)]
    try:
        require_pinned(history.approvals, planned.study, owner)
        if counted is not None:
            require_rows_of_people(counted)
            require_keys(history, data_set.account, counted)
        require_possible(planned, history, state, now=utc_now())
    except DppcaError as error:
        found.append(error)
    return tuple(found)


def find_uncovered(
    study: Study, policy: Policy, history: History, *, owner: str
) -> list[DppcaError]:
    """Return why the policy covers a study for no data set; empty if it does or has no data set.

    No row is read: reasons that depend on rows are left out.
    """
    found: list[DppcaError] = []
    for each in policy.data_sets:
        refusals = [*_refused_by_rule(study, each)]
        try:
            require_pinned(history.approvals, study, owner)
            request = request_contribution(study, calibrate(study), account=each.account)
            admit_charge(history, request)
        except DppcaError as error:
            refusals.append(error)
        if not refusals:
            return []
        found += refusals
    return found


def _refused_by_rule(study: Study, data_set: DataSet) -> Iterator[DppcaError]:
    unsaid = find_unsaid(study, data_set)
    if unsaid is not None:
        yield NoPolicyError(unsaid)
    if study.trust is Trust.AGGREGATE:
        from dppca.common.kernel.aggregation.terms import Terms  # not for sums in the clear

        refusal = find_refusal(study, Terms.from_study(study), data_set)
        if refusal is not None:
            yield NoPolicyError(refusal)
