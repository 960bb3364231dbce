"""What `doctor` looks at: everything that has to be right before a contribution can be.

Each area is examined by itself, so one visit finds all that is wrong; an area that cannot be
examined because of another is skipped and says so. Data are opened and their columns compared with
the studies that wait for them; no row is judged (that is what `check` is for) and nothing is
written. A message says what was found and, where something is wrong, what to do.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from common.conversation import StudyState
from common.errors import DataError, DppcaError, IdentityError, LedgerError
from common.study import Study
from common.transport.tls import EXPIRY_WARNING, Role, authority_expires, check_credentials
from owner.client import CuratorClient
from owner.config import Policy, Site, load_policy, load_site
from owner.contribution import remaining, spent
from owner.enrolment import is_cut_off
from owner.ledger.chain import History
from owner.ledger.database import read_history
from owner.records import open_table
from owner.session import credentials_of


class State(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    error, exit_code
        Of a broken thing: the class of the error that a command would end with. None and 0 else.
    """

    area: str
    state: State
    message: str
    error: str | None = None
    exit_code: int = 0


def diagnose(folder: Path, *, offline: bool, now: datetime) -> list[Finding]:
    """Examine a site; the order is that in which things should be mended.

    Parameters
    ----------
    offline
        Skip what needs the curator.
    now
        Aware.
    """
    try:
        site = load_site(folder)
    except DppcaError as error:
        return [_broken("site", error)]
    findings = [Finding("site", State.OK, f"{site.name}, curator at {site.curator}")]
    findings += _certificates(site, now)
    accepted = all(finding.state is not State.BROKEN for finding in findings)
    connection, waiting = _connection(site, offline=offline, accepted=accepted)
    policy_findings, policy = _policy(site)
    ledger_findings, history = _ledger(site)
    findings += [*connection, *policy_findings, *_data(policy, waiting), *ledger_findings]
    if policy is not None and history is not None:
        findings += _budgets(policy, history)
    return findings


def _certificates(site: Site, now: datetime) -> Iterator[Finding]:
    try:
        credentials = credentials_of(site)
        if is_cut_off(site):
            message = "a renewal was cut off: run `dppca-owner renew` again"
            raise IdentityError(message)
        expires = check_credentials(credentials, role=Role.OWNER, name=site.name, now=now)
        authority_ends = authority_expires(credentials)
    except DppcaError as error:
        yield _broken("certificates", error)
        return
    left = expires - now
    if left < EXPIRY_WARNING:
        message = (
            f"the certificate expires in {left.days} days: run `dppca-owner renew`, or send "
            f"{site.request} to the operator to sign again"
        )
        yield Finding("certificates", State.WARNING, message)
    else:
        yield Finding("certificates", State.OK, f"valid until {expires:%Y-%m-%d}")
    if authority_ends - now < EXPIRY_WARNING:
        message = (
            f"the authority's certificate, ca.pem, expires in {(authority_ends - now).days} days: "
            "ask the operator for the authority that follows it"
        )
        yield Finding("certificates", State.WARNING, message)
    if stat.S_IMODE(site.key.stat().st_mode) & 0o077:
        message = f"others can read the private key: run chmod 600 {site.key}"
        yield Finding("certificates", State.WARNING, message)


def _connection(
    site: Site, *, offline: bool, accepted: bool
) -> tuple[list[Finding], dict[str, Study]]:
    """Whether the curator can be reached, and the studies that wait for this owner."""
    if offline or not accepted:
        why = "asked to stay offline" if offline else "the certificates have to be mended first"
        return [Finding("connection", State.SKIPPED, why)], {}
    try:
        with CuratorClient(
            site.curator, credentials_of(site), server_name=site.server_name
        ) as client:
            client.require_serving()
            studies = client.studies()
            open_studies = {
                each.name: client.study(each.name)[0]
                for each in studies
                if each.state is StudyState.OPEN and not each.contributed
            }
    except DppcaError as error:
        return [_broken("connection", error)], {}
    waiting = f"; waiting for this site: {', '.join(open_studies)}" if open_studies else ""
    message = f"the curator serves calls; studies that name this owner: {len(studies)}{waiting}"
    return [Finding("connection", State.OK, message)], open_studies


def _policy(site: Site) -> tuple[list[Finding], Policy | None]:
    try:
        policy = load_policy(site)
    except DppcaError as error:
        return [_broken("policy", error)], None
    if not policy.data_sets:
        message = (
            "policy.yaml names no data set, so nothing can be released: enter one with its path "
            "and its lifetime budget"
        )
        return [Finding("policy", State.WARNING, message)], policy
    names = ", ".join(each.name for each in policy.data_sets)
    return [Finding("policy", State.OK, f"data sets: {names}")], policy


def _data(policy: Policy | None, waiting: dict[str, Study]) -> Iterator[Finding]:
    """Whether each data set is there, and each study that waits can be served by one of them."""
    if policy is None or not policy.data_sets:
        return
    unreadable = [each for each in policy.data_sets if not os.access(each.path, os.R_OK)]
    for each in unreadable:
        message = f"data set {each.name}: {each.path} cannot be read; correct policy.yaml"
        yield _broken("data", DataError(message))
    if not waiting and not unreadable:
        yield Finding(
            "data", State.OK, "every data file can be read; `check` compares it to a study"
        )
    for name, study in waiting.items():
        fitting, reasons = [], []
        for each in policy.data_sets:
            try:
                table = open_table(each.path, study.table)
                fitting.append(f"{each.name} ({table.n_rows} rows)")
            except DppcaError as error:
                reasons.append(str(error))
        if fitting:
            yield Finding("data", State.OK, f"study {name} can be served by {', '.join(fitting)}")
        else:
            message = f"no data set fits study {name}: {'; '.join(reasons)}"
            yield _broken("data", DataError(message))


def _ledger(site: Site) -> tuple[list[Finding], History | None]:
    try:
        history = read_history(site.ledger)
    except DppcaError as error:
        return [_broken("ledger", error)], None
    findings = [
        Finding("ledger", State.OK, f"{history.length} entries, and the chain verifies")
        if site.ledger.exists()
        else Finding("ledger", State.OK, "none yet: the first contribution makes it")
    ]
    unsent = [
        r.wanted.study
        for r in history.reservations
        if not r.wanted.model and r.release_id not in history.sendings
    ]
    unmade = [
        r.wanted.title
        for r in history.reservations
        if r.wanted.model and r.release_id not in history.commitments
    ]
    if unsent:
        message = (
            f"charged but not known to have arrived: {', '.join(unsent)}; run `contribute` again "
            "(no further charge)"
        )
        findings.append(Finding("ledger", State.WARNING, message))
    if unmade:
        message = (
            f"charged but not stored: {', '.join(unmade)}; run the same `train` again (no further "
            "charge)"
        )
        findings.append(Finding("ledger", State.WARNING, message))
    if not os.access(site.folder, os.W_OK):
        message = f"{site.folder} cannot be written, so nothing can be charged: mend permissions"
        findings.append(_broken("ledger", LedgerError(message)))
    return findings, history


def _budgets(policy: Policy, history: History) -> Iterator[Finding]:
    for each in policy.data_sets:
        total = history.total(each.name)
        used, left = spent(each.budget, total), remaining(each.budget, total)
        if used is None or used > each.budget.epsilon:
            message = (
                f"data set {each.name} has been charged more than policy.yaml now allows: no "
                "further release is possible from it"
            )
            yield Finding("budget", State.WARNING, message)
        elif left == 0:
            message = f"data set {each.name} has spent its lifetime budget"
            yield Finding("budget", State.WARNING, message)


def _broken(area: str, error: DppcaError) -> Finding:
    return Finding(area, State.BROKEN, str(error), type(error).__name__, error.exit_code)
