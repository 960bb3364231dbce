"""What was charged to each data set and what is left, as ``dppca-owner budget`` prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dppca.common.amounts import decimal_text
from dppca.common.errors import NoPolicyError
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Recovery, Reservation
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.ledger.reading import read_history
from dppca.owner.release.contribution import remaining, spent
from dppca.owner.render.ledger import (
    BudgetDocument,
    ChargedRelease,
    DataSetBudget,
    OfferedOpening,
)
from dppca.owner.render.texts import optional_text
from dppca.owner.site.config import DataSet, Policy, Site, load_policy, load_site


def budget_document(folder: Path, data_set_name: str | None) -> BudgetDocument:
    """The totals of one data set or of all, once the whole ledger is verified.

    `NoPolicyError` where neither the policy nor the ledger knows the data set.
    """
    site = load_site(folder)
    policy = _policy(site)
    history = read_history(site.ledger)
    names = dict.fromkeys([*(each.name for each in policy.data_sets), *history.data_sets])
    if data_set_name is not None and data_set_name not in names:
        raise NoPolicyError(
            f"neither policy.yaml nor the ledger knows data set {data_set_name} (known: "
            f"{', '.join(names) or 'none'})"
        )
    shown = list(names) if data_set_name is None else [data_set_name]
    return {
        "command": "budget",
        "ledger": {
            "path": str(site.ledger),
            "entries": history.length,
            "head": history.head.hex(),
            "verified": True,
        },
        "data_sets": [_data_set(name, policy, history) for name in shown],
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
        return Policy(())


def _data_set(name: str, policy: Policy, history: History) -> DataSetBudget:
    """Totals of one data set, and its budget if the policy still names it."""
    data_set: DataSet | None = next((d for d in policy.data_sets if d.name == name), None)
    total = history.total(name)
    document: DataSetBudget = {
        "name": name,
        "charged_epsilon": decimal_text(total.epsilon),
        "charged_rho": decimal_text(total.rho),
        "epsilon": None,
        "delta": None,
        "spent": None,
        "remaining": None,
    }
    if data_set is not None:
        document |= {
            "epsilon": decimal_text(data_set.budget.epsilon),
            "delta": decimal_text(data_set.budget.delta),
            "spent": optional_text(spent(data_set.budget, total)),
            "remaining": optional_text(remaining(data_set.budget, total)),
        }
    return document


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
