"""``dppca-owner budget``."""

from __future__ import annotations

from typing import Any

import click

from common.console import emit, json_option
from common.errors import NoPolicyError, SettingError
from common.study import decimal_text
from owner.commands.budget_tools import export, plan, verify
from owner.commands.options import data_set_option
from owner.config import DataSet, Policy, Site, load_policy, load_site
from owner.contribution import remaining, spent
from owner.ledger.chain import History
from owner.ledger.database import read_history
from owner.ledger.entries import Reservation
from owner.render import optional_text
from owner.render_ledger import budget_text


@click.group("budget", invoke_without_command=True)
@data_set_option
@json_option
@click.pass_context
def command(ctx: click.Context, data_set_name: str | None, *, as_json: bool) -> None:
    """List what was charged to each data set and what is left, and verify the whole ledger.

    Leaves with 31, naming the first damaged entry, where the ledger does not verify.

    \b
    Example:
      dppca-owner budget
      dppca-owner budget --data-set survey --json
      dppca-owner budget plan --epsilon 0.5
    """
    if ctx.invoked_subcommand is not None:
        if data_set_name is not None or as_json:
            message = f"write the options after {ctx.invoked_subcommand}, not before it"
            raise SettingError(message)
        return
    site = load_site(ctx.obj)
    policy = _policy(site)
    history = read_history(site.ledger)
    names = dict.fromkeys([*(each.name for each in policy.data_sets), *history.data_sets])
    if data_set_name is not None and data_set_name not in names:
        message = (
            f"neither policy.yaml nor the ledger knows data set {data_set_name} (known: "
            f"{', '.join(names) or 'none'})"
        )
        raise NoPolicyError(message)
    shown = list(names) if data_set_name is None else [data_set_name]
    document = {
        "command": "budget",
        "ledger": {
            "path": str(site.ledger),
            "entries": history.length,
            "head": history.head.hex(),
            "verified": True,
        },
        "data_sets": [_data_set(name, policy, history) for name in shown],
        "releases": [
            _release(r, history) for r in history.reservations if r.wanted.data_set in shown
        ],
    }
    emit(document, budget_text(document), as_json=as_json)


command.add_command(export)
command.add_command(verify)
command.add_command(plan)


def _policy(site: Site) -> Policy:
    """The policy; one without data sets where there is none, since the ledger is still readable."""
    try:
        return load_policy(site)
    except NoPolicyError:
        return Policy(())


def _data_set(name: str, policy: Policy, history: History) -> dict[str, Any]:
    """Totals of one data set, against its budget where the policy still names it."""
    found: DataSet | None = next((d for d in policy.data_sets if d.name == name), None)
    total = history.total(name)
    document: dict[str, Any] = {
        "name": name,
        "charged_epsilon": decimal_text(total.epsilon),
        "charged_rho": decimal_text(total.rho),
        "epsilon": None,
        "delta": None,
        "spent": None,
        "remaining": None,
    }
    if found is not None:
        document |= {
            "epsilon": decimal_text(found.budget.epsilon),
            "delta": decimal_text(found.budget.delta),
            "spent": optional_text(spent(found.budget, total)),
            "remaining": optional_text(remaining(found.budget, total)),
        }
    return document


def _release(reservation: Reservation, history: History) -> dict[str, Any]:
    """One charge and how far its release has come."""
    wanted, release_id = reservation.wanted, reservation.release_id
    committed = history.commitments.get(release_id)
    state = "reserved" if committed is None else "stored"
    return {
        "sequence": reservation.sequence,
        "time": reservation.time,
        "data_set": wanted.data_set,
        "study": wanted.study,
        "model": wanted.model or None,
        "digest": wanted.study_digest,
        "release_id": release_id.hex(),
        "mechanism": wanted.mechanism,
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
        "rows": None if committed is None else committed.n_rows,
        "state": "sent" if release_id in history.sendings else state,
    }
