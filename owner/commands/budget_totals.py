"""What was charged to each population and what is left, as ``dppca-owner budget`` prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dppca.common.amounts import decimal_text
from dppca.common.errors import NoPolicyError, SettingError
from dppca.common.privacy.accounting import NO_COST, PrivacyCost
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Recovery, ReleaseRequest, Reservation
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.ledger.populations import Population
from dppca.owner.ledger.reading import read_history
from dppca.owner.release.contribution import remaining, spent
from dppca.owner.render.charges import optional_text
from dppca.owner.render.ledger import (
    BudgetDocument,
    BudgetFigures,
    ChargedRelease,
    DataSetBudget,
    OfferedOpening,
    PopulationBudget,
)
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.policy import Policy, load_policy


def budget_document(folder: Path, data_set_name: str | None) -> BudgetDocument:
    """The totals of one data set's population or of all, once the whole ledger is verified.

    `NoPolicyError` where neither the policy nor the ledger knows the data set.
    """
    site = load_site(folder)
    policy = _policy(site)
    history = read_history(site.ledger)
    owners = _find_owners(policy, history)
    if data_set_name is not None and data_set_name not in owners:
        raise NoPolicyError(
            f"neither policy.yaml nor the ledger knows data set {data_set_name} (known: "
            f"{', '.join(owners) or 'none'})"
        )
    shown = list(owners) if data_set_name is None else [data_set_name]
    stated = [each.name for each in policy.populations] if data_set_name is None else []
    people = dict.fromkeys([*stated, *(owners[name] for name in shown)])
    return {
        "command": "budget",
        "ledger": {
            "path": str(site.ledger),
            "entries": history.length,
            "head": history.head.hex(),
            "verified": True,
        },
        "populations": [_population(name, policy, history) for name in people],
        "data_sets": [_data_set(name, owners[name], policy, history) for name in shown],
        "releases": [_release(r, history) for r in history.charges if r.request.data_set in shown],
        "disowned": [
            {
                "sequence": each.sequence,
                "time": each.time,
                "study": each.study,
                "digest": each.study_digest,
                "release_id": each.release_id.hex(),
                "reason": each.reason,
            }
            for each in history.disowned.values()
        ],
        "openings": [_opening(key_id, each) for key_id, each in history.openers.items()],
    }


def _policy(site: Site) -> Policy:
    """The policy, or an empty one if there is none: the ledger can be read without it."""
    try:
        return load_policy(site)
    except NoPolicyError:
        return Policy((), ())


def _find_owners(policy: Policy, history: History) -> dict[str, str]:
    """The population of each data set: that it draws on, or that its charges count for."""
    owners = {each.name: each.account.population.name for each in policy.data_sets}
    stated = {each.name for each in policy.populations}
    for account in (charge.request.account for charge in history.charges):
        name = account.population.name
        if name not in stated:
            tied = history.tied_to(name, policy.populations)
            name = tied[0].name if tied else name
        owners.setdefault(account.data_set, name)
    return owners


def find_left(site: Site, request: ReleaseRequest) -> tuple[str, str | None]:
    """The population that a release is charged to now, and the epsilon that is left of its budget.

    The second is None where the policy does not state the data set any more: what is stored is
    sent whatever became of the policy.
    """
    try:
        account = load_policy(site).data_set(request.data_set).account
    except (NoPolicyError, SettingError):
        return request.account.population.name, None
    name = account.population.name
    total = read_history(site.ledger).total(name, account.populations)
    return name, optional_text(remaining(account.population.budget, total))


def _population(name: str, policy: Policy, history: History) -> PopulationBudget:
    """Totals of one population, and its budget if the policy states it."""
    stated = next((each for each in policy.populations if each.name == name), None)
    total = history.total(name, policy.populations)
    return {
        "name": name,
        "who": "" if stated is None else stated.who,
        "data_sets": [] if stated is None else list(stated.data_sets),
        "tied_to": [each.name for each in history.tied_to(name, policy.populations)],
        **_standing(total, stated),
    }


def _data_set(name: str, population: str, policy: Policy, history: History) -> DataSetBudget:
    """What was charged for a data set under its name, and how its population stands."""
    stated = next((each for each in policy.populations if each.name == population), None)
    charges = (c.request.charge for c in history.charges if c.request.data_set == name)
    own = sum(charges, NO_COST)
    standing = _standing(history.total(population, policy.populations), stated)
    return {
        "name": name,
        "population": population,
        **standing,
        "charged_epsilon": decimal_text(own.epsilon),
        "charged_rho": decimal_text(own.rho),
    }


def _standing(total: PrivacyCost, stated: Population | None) -> BudgetFigures:
    budget = None if stated is None else stated.budget
    return {
        "charged_epsilon": decimal_text(total.epsilon),
        "charged_rho": decimal_text(total.rho),
        "epsilon": None if budget is None else decimal_text(budget.epsilon),
        "delta": None if budget is None else decimal_text(budget.delta),
        "spent": None if budget is None else optional_text(spent(budget, total)),
        "remaining": None if budget is None else optional_text(remaining(budget, total)),
    }


def _release(charged: Reservation | Recovery, history: History) -> ChargedRelease:
    """One charge and the state of its release."""
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
    return {
        "sequence": charged.sequence,
        "time": charged.time,
        "data_set": request.data_set,
        "population": request.account.population.name,
        "study": request.study,
        "model": request.name or None,
        "digest": request.request_digest,
        "release_id": release_id.hex(),
        "mechanism": request.mechanism,
        **request.cost_fields(),
        "rows": None if committed is None else committed.n_rows,
        "state": state,
        "colluders": request.colluders,
        "honest": request.honest,
    }


def _opening(key_id: str, record: OpenerRecord) -> OfferedOpening:
    """How far an opener key came."""
    state: Literal["offered", "voted", "opened", "acknowledged"] = "offered"
    if record.is_done:
        state = "acknowledged"
    elif record.bound is not None:
        state = "voted" if record.opening is None else "opened"
    return {
        "study": record.offer.study,
        "opener_key": key_id,
        "set_digest": None if record.bound is None else record.bound.set_digest,
        "state": state,
    }
