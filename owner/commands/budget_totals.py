"""Charges and remaining budget of each population, for ``dppca-owner budget``."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from dppca.common.kernel.errors import NoPolicyError, SettingError
from dppca.common.kernel.privacy.accounting import NO_COST
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import StoredRelease, find_lock
from dppca.owner.ledger.entries import Recovery, Reservation
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.ledger.populations import remaining, spent
from dppca.owner.render.ledger import (
    ChargedRelease,
    DataSetCharges,
    LedgerState,
    OfferedOpening,
    PopulationBudget,
    SiteBudgets,
)
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.policy import Policy, load_policy


def site_budgets(folder: Path, data_set_name: str | None) -> SiteBudgets:
    """Verify the whole ledger; return the totals of one data set's population or of all.

    Raise `ChainError` if the ledger lacks what this site knows, `NoPolicyError` if neither the
    policy nor the ledger knows the data set.
    """
    site = load_site(folder)
    policy = _policy(site)
    locked = find_lock(site.ledger)
    history = read_history(site.ledger)
    owners = _find_owners(policy, history)
    if data_set_name is not None and data_set_name not in owners:
        raise NoPolicyError(
            f"neither policy.yaml nor the ledger names data set {data_set_name} (known: "
            f"{', '.join(owners) or 'none'})"
        )
    shown = list(owners) if data_set_name is None else [data_set_name]
    stated = [each.name for each in policy.populations] if data_set_name is None else []
    people = dict.fromkeys([*stated, *(owners[name] for name in shown)])
    return SiteBudgets(
        ledger=LedgerState(path=str(site.ledger), entries=history.length, head=history.head),
        populations=tuple(population_budget(name, policy, history) for name in people),
        data_sets=tuple(_data_set(name, owners[name], history) for name in shown),
        releases=tuple(
            _release(each, history) for each in history.charges if each.request.data_set in shown
        ),
        disowned=tuple(history.disowned.values()),
        openings=tuple(_opening(key_id, each) for key_id, each in history.openers.items()),
        locked=locked,
    )


def _policy(site: Site) -> Policy:
    """Return the policy, or an empty one if there is none: the ledger can be read without it."""
    try:
        return load_policy(site)
    except NoPolicyError:
        return Policy((), ())


def _find_owners(policy: Policy, history: History) -> dict[str, str]:
    """Return each data set's population: from the policy, else from the data set's charges."""
    owners = {each.name: each.account.population.name for each in policy.data_sets}
    stated = {each.name for each in policy.populations}
    for account in (charge.request.account for charge in history.charges):
        name = account.population.name
        if name not in stated:
            tied = history.tied_to(name, policy.populations)
            name = tied[0].name if tied else name
        owners.setdefault(account.data_set, name)
    return owners


def stored_charge(
    policy: Callable[[], Policy], history: History, stored: StoredRelease
) -> dict[str, Any]:
    """Return the fields of `StoredCharge` that come from the ledger and from the policy.

    ``remaining`` is None if ``policy`` raises, or does not state the data set any longer: a stored
    release is still sent.
    """
    request = stored.reservation.request
    account, left = request.account, None
    with suppress(NoPolicyError, SettingError):
        account = policy().data_set(request.data_set).account
        total = history.total(account.population.name, account.populations)
        left = remaining(account.population.budget, total)
    return {
        **request.price.amounts(),
        "study": request.study,
        "data_set": request.data_set,
        "population": account.population.name,
        "remaining": left,
        "rows": stored.commitment.n_rows,
        "bytes": len(stored.payload),
        "mechanism": request.mechanism,
        "release_id": stored.reservation.release_id.hex(),
    }


def population_budget(name: str, policy: Policy, history: History) -> PopulationBudget:
    """Return the totals of one population, and its budget if the policy states it."""
    stated = next((each for each in policy.populations if each.name == name), None)
    total = history.total(name, policy.populations)
    found = PopulationBudget(
        name=name,
        tied_to=tuple(each.name for each in history.tied_to(name, policy.populations)),
        **total.amounts(),
        promise=history.promise(name, policy.populations),
        weakened=_weakened(name, policy, history),
    )
    if stated is None:
        return found
    return replace(
        found,
        who=stated.who,
        data_sets=tuple(stated.data_sets),
        epsilon=stated.budget.epsilon,
        delta=stated.budget.delta,
        spent=spent(stated.budget, total),
        remaining=remaining(stated.budget, total),
    )


def _weakened(name: str, policy: Policy, history: History) -> str | None:
    """Return by which study a number left that was promised to stay secret, and on which day."""
    charge = history.weakened_by(name, policy.populations)
    return None if charge is None else f"{charge.request.title}, {charge.time[:10]}"


def _data_set(name: str, population: str, history: History) -> DataSetCharges:
    charges = (c.request.price.charge for c in history.charges if c.request.data_set == name)
    own = sum(charges, NO_COST)
    return DataSetCharges(name=name, population=population, **own.amounts())


def _release(charged: Reservation | Recovery, history: History) -> ChargedRelease:
    """Return one charge with the state of its release."""
    request, release_id = charged.request, charged.release_id
    recovered = history.recoveries.get(release_id)
    committed = history.commitments.get(release_id) or recovered
    state: Literal["reserved", "stored", "sent", "recovered"]
    if recovered is not None:
        state = "recovered"
    elif release_id in history.deliveries:
        state = "sent"
    else:
        state = "reserved" if committed is None else "stored"
    return ChargedRelease(
        sequence=charged.sequence,
        time=charged.time,
        data_set=request.data_set,
        population=request.account.population.name,
        study=request.study,
        model=request.name or None,
        digest=request.request_digest,
        release_id=release_id,
        mechanism=request.mechanism,
        **request.price.amounts(),
        rows=None if committed is None else committed.n_rows or None,
        state=state,
        colluders=request.colluders,
        honest=request.honest,
    )


def _opening(key_id: str, record: OpenerRecord) -> OfferedOpening:
    """Return an opener key with its last step."""
    state: Literal["offered", "voted", "opened", "acknowledged"] = "offered"
    if record.is_done:
        state = "acknowledged"
    elif record.bound is not None:
        state = "voted" if record.opening is None else "opened"
    return OfferedOpening(
        study=record.offer.study,
        opener_key=key_id,
        set_digest=None if record.bound is None else record.bound.set_digest,
        state=state,
    )
