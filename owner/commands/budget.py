"""``dppca-owner budget``."""

from __future__ import annotations

from typing import Literal

import click

from dppca.common.amounts import decimal_text
from dppca.common.console import emit, prints
from dppca.common.errors import NoPolicyError, SettingError
from dppca.owner.commands.budget_tools import export, plan, verify
from dppca.owner.commands.options import data_set_option
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.entries import Recovery, Reservation
from dppca.owner.ledger.reading import read_history
from dppca.owner.release.contribution import remaining, spent
from dppca.owner.render.ledger import (
    BudgetDocument,
    ChargedRelease,
    DataSetBudget,
    budget_text,
)
from dppca.owner.render.texts import optional_text
from dppca.owner.site.config import DataSet, Policy, Site, load_policy, load_site


@click.group("budget", invoke_without_command=True)
@data_set_option
@prints(BudgetDocument)
@click.pass_context
def command(ctx: click.Context, data_set_name: str | None, *, as_json: bool) -> None:
    """List what was charged to each data set and what is left, and verify the whole ledger.

    If the ledger does not verify, exits with 31 and names the first damaged entry.

    \b
    Example:
      dppca-owner budget
      dppca-owner budget --data-set survey --json
      dppca-owner budget plan --epsilon 0.5
    """
    if ctx.invoked_subcommand is not None:
        if data_set_name is not None or as_json:
            raise SettingError(f"write the options after {ctx.invoked_subcommand}, not before it")
        return
    site = load_site(ctx.obj)
    policy = _policy(site)
    history = read_history(site.ledger)
    names = dict.fromkeys([*(each.name for each in policy.data_sets), *history.data_sets])
    if data_set_name is not None and data_set_name not in names:
        raise NoPolicyError(
            f"neither policy.yaml nor the ledger knows data set {data_set_name} (known: "
            f"{', '.join(names) or 'none'})"
        )
    shown = list(names) if data_set_name is None else [data_set_name]
    document: BudgetDocument = {
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
    }
    emit(document, budget_text(document), as_json=as_json)


command.add_command(export)
command.add_command(verify)
command.add_command(plan)


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
    }
