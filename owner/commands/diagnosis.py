"""Diagnosis of a site: `doctor` checks every condition for a contribution.

Each area is examined by itself, so one run finds all faults; an area that cannot be examined
because of another is skipped and says so. Data are opened, and their columns are compared with the
studies that wait for them, and the first rows are tried for how they are written; no row is judged
(`check` does that) and nothing is written. A message
says what was found and, if something is wrong, what to do.
"""

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.clock import duration_text
from dppca.common.kernel.durable.files import open_to_others
from dppca.common.kernel.errors import (
    DataError,
    DppcaError,
    IdentityError,
    LedgerError,
    OpeningRefusedError,
    PrivacyError,
    SettingError,
    StudyError,
    UploadError,
)
from dppca.common.kernel.identity.tls import (
    Identity,
    Role,
    Term,
    check_credentials,
    load_credentials,
    renewal,
)
from dppca.common.kernel.study import Study
from dppca.common.shell.stray_keys import find_authority_keys
from dppca.common.transport.greeting import Greeting, clock_remark
from dppca.owner.client.calls import allow_documents, open_client, read_proxy
from dppca.owner.commands.coverage import find_refusals
from dppca.owner.engines.addresses import LOCAL
from dppca.owner.engines.selection import open_engine
from dppca.owner.ledger.chain import History, is_finished, require_claimed
from dppca.owner.ledger.database import compare_ledger, require_newest
from dppca.owner.ledger.file import read_archive
from dppca.owner.ledger.mark import CuratorView, not_borne_out
from dppca.owner.ledger.populations import remaining, spent
from dppca.owner.records.locations import find_shared_rows
from dppca.owner.records.recognition import propose_formats
from dppca.owner.records.table import Table, open_table
from dppca.owner.records.text_format import TextFormat
from dppca.owner.release.contribution import review
from dppca.owner.release.reading import request_of_rows
from dppca.owner.render.formats import format_lines
from dppca.owner.site.agreement import agree, read_peers
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.enrolment import is_cut_off
from dppca.owner.site.opener_keys import list_opener_keys
from dppca.owner.site.policy import DataSet, Policy, load_policy


class State(StrEnum):
    """Severity of a diagnosis."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    BROKEN = "broken"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Result of one examination."""

    area: Annotated[str, "what was looked at"]
    state: Annotated[State, "how bad it is"]
    message: Annotated[str, "what was found, and what to do"]
    error: Annotated[str | None, "the error's class; null unless it is broken"] = None
    exit_code: Annotated[int, "the error's exit code; 0 unless it is broken"] = 0


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Study that waits for contributions (``is_open``) or for openers."""

    study: Study
    is_open: bool
    contributed: bool


@dataclass(frozen=True, slots=True)
class DoctorDocument:
    """Findings about a site."""

    site: Annotated[Path, "the site's folder"]
    findings: Annotated[list[Diagnosis], "in the order in which to correct them"]

    @property
    def healthy(self) -> Annotated[bool, "whether nothing is broken"]:
        """Return True if nothing is broken."""
        return all(each.state is not State.BROKEN for each in self.findings)


def findings_text(report: DoctorDocument) -> str:
    """Return the findings, one to a line."""
    alarming = (State.WARNING, State.BROKEN)
    lines = [
        f"{each.state.upper() if each.state in alarming else each.state:7}  {each.area}: "
        f"{each.message}"
        for each in report.findings
    ]
    return "\n".join([*lines, "Nothing is broken." if report.healthy else "See BROKEN above."])


def diagnose(folder: Path, *, offline: bool, now: datetime) -> list[Diagnosis]:
    """Examine a site; the findings are in the order in which faults should be repaired.

    ``offline`` skips examinations that need the curator; ``now`` is the current time, aware.
    """
    try:
        site = load_site(folder)
    except DppcaError as error:
        return [_broken("site", error)]
    way = "" if site.proxy is None else f", through the proxy {site.proxy}"
    findings = [Diagnosis("site", State.OK, f"{site.name}, curator at {site.curator}{way}")]
    findings += [
        Diagnosis(
            "site", State.WARNING, f"other users can open it: run chmod go= {shlex.quote(path)}"
        )
        for path in map(str, open_to_others(site.private))
    ]
    findings += _certificates(site, now)
    if not offline:
        findings += _proxy(site)
    accepted = all(finding.state is not State.BROKEN for finding in findings)
    connection, waiting, view = _connection(site, offline=offline, accepted=accepted)
    contributing = {
        name: each.study for name, each in waiting.items() if not each.contributed and each.is_open
    }
    policy_findings, policy = _policy(site)
    ledger_findings, history = _ledger(site, view)
    served = _data(site, policy, contributing, history)
    engines = _engines(site, policy, offline=offline)
    findings += [*connection, *policy_findings, *served, *engines, *ledger_findings]
    findings += _peers(site)
    if history is not None:
        findings += _openings(site, waiting, history)
    if policy is not None and history is not None:
        findings += _budgets(policy, history)
    return findings


def _certificates(site: Site, now: datetime) -> Iterator[Diagnosis]:
    try:
        credentials = load_credentials(site)
        if is_cut_off(site):
            raise IdentityError("a renewal was interrupted: run `dppca-owner renew` again")
        check_credentials(credentials, role=Role.OWNER, name=site.name, now=now)
    except DppcaError as error:
        yield _broken("certificates", error)
        return
    for path in find_authority_keys(site.folder, credentials.ca):
        message = (
            f"{path} is the secret key of the authority, and can sign for every party: tell the "
            "operator, who keeps it on a machine that is switched off, and remove it here"
        )
        yield Diagnosis("certificates", State.WARNING, message)
    own, authority = Term.from_pem(credentials.certificate), Term.from_pem(credentials.ca)
    if now >= own.warn_from:
        message = (
            f"the certificate {_soon(own.ends, now)}: {renewal(Identity(site.name, Role.OWNER))}"
        )
        yield Diagnosis("certificates", State.WARNING, message)
    else:
        yield Diagnosis("certificates", State.OK, f"valid until {own.ends:%Y-%m-%d}")
    if now >= authority.warn_from:
        message = f"the certificate of the authority (ca.pem) {_soon(authority.ends, now)}: "
        message += renewal(None)
        yield Diagnosis("certificates", State.WARNING, message)


def _soon(ends: datetime, now: datetime) -> str:
    days = (ends - now).days
    left = f"{days} days" if days > 1 else duration_text(ends - now)
    return f"expires in {left}, on {ends:%Y-%m-%d %H:%M} UTC by this machine's clock"


def _proxy(site: Site) -> Iterator[Diagnosis]:
    """Examine the connection to the curator through the site's proxy."""
    try:
        proxy = read_proxy(site)
        if proxy is None:
            return
        proxy.open_tunnel(site.curator).close()
    except DppcaError as error:
        yield _broken("proxy", error)
        return
    yield Diagnosis("proxy", State.OK, f"{proxy.address} connects to {site.curator}")


def _connection(
    site: Site, *, offline: bool, accepted: bool
) -> tuple[list[Diagnosis], dict[str, _Waiting], CuratorView]:
    """Examine the connection; return studies that wait for this owner and the curator's record."""
    if offline or not accepted:
        why = "asked to stay offline" if offline else "correct what is broken above first"
        return [Diagnosis("connection", State.SKIPPED, why)], {}, CuratorView()
    awaited: dict[str, _Waiting] = {}
    refused: list[Diagnosis] = []
    try:
        with open_client(site, load_credentials(site)) as client:
            client.require_serving()
            studies, view = client.studies(), client.held()
            allowed = allow_documents()
            for each in studies:
                if each.state not in (StudyState.OPEN, StudyState.SEALED):
                    continue
                try:
                    study, _ = client.study(each.name, allowed)
                except (StudyError, PrivacyError, SettingError, UploadError) as error:
                    message = f"study {each.name}: its document is refused ({error}); tell the "
                    refused.append(Diagnosis("connection", State.INFO, f"{message}operator"))
                else:
                    is_open = each.state is StudyState.OPEN
                    awaited[each.name] = _Waiting(study, is_open, each.contributed)
    except DppcaError as error:
        return [_broken("connection", error)], {}, CuratorView()
    open_studies = [n for n, each in awaited.items() if each.is_open and not each.contributed]
    waiting = f"; waiting for this site: {', '.join(open_studies)}" if open_studies else ""
    message = f"the curator serves calls; studies that name this owner: {len(studies)}{waiting}"
    connected = Diagnosis("connection", State.OK, message)
    return [connected, *_greeting(client.greeting), *refused], awaited, view


def _greeting(said: Greeting | None) -> Iterator[Diagnosis]:
    """Compare the curator's version and clock with this site's."""
    if said is None:
        return
    for remark in said.remarks():
        yield Diagnosis("curator", State.WARNING, remark)
    if said.ahead is None:
        return
    if remark := clock_remark(said.ahead, who="the curator"):
        yield Diagnosis("clock", State.WARNING, remark)
    else:
        yield Diagnosis("clock", State.OK, "this machine's clock agrees with the curator's")


def _policy(site: Site) -> tuple[list[Diagnosis], Policy | None]:
    try:
        policy = load_policy(site)
    except DppcaError as error:
        return [_broken("policy", error)], None
    if not policy.data_sets:
        message = (
            "policy.yaml names no data set, so nothing can be released: enter one with its path "
            "and its population"
        )
        return [Diagnosis("policy", State.WARNING, message)], policy
    names = "; ".join(
        f"population {each.name}: {', '.join(each.data_sets) or 'no data set'}"
        for each in policy.populations
    )
    owners = {each.name: each.account.population.name for each in policy.data_sets}
    findings = [Diagnosis("policy", State.OK, names)]
    for one, other in find_shared_rows({each.name: each.source for each in policy.data_sets}):
        if owners[one] != owners[other]:
            message = (
                f"data sets {one} and {other} have rows in common and draw on two populations, "
                f"{owners[one]} and {owners[other]}: every charge to one counts for the other and "
                "needs the budgets of both. If they are the same people, state one population"
            )
            findings.append(Diagnosis("policy", State.WARNING, message))
    return findings, policy


def _data(
    site: Site,
    policy: Policy | None,
    waiting: dict[str, Study],
    history: History | None,
) -> Iterator[Diagnosis]:
    """Examine each data set, and find those that `contribute` would accept for each open study."""
    if policy is None or not policy.data_sets:
        return
    unreadable = False
    for each in policy.data_sets:
        try:
            remarks = each.source.examine()
        except DppcaError as error:
            unreadable = True
            yield _broken("data", DataError(f"data set {each.name}: {error}"))
        else:
            for text, is_warning in remarks:
                state = State.WARNING if is_warning else State.OK
                yield Diagnosis("data", state, f"data set {each.name}: {text}")
    if not waiting and not unreadable:
        yield Diagnosis(
            "data", State.OK, "every data set can be read; `check` compares it to a study"
        )
    for name, study in waiting.items():
        fitting: list[str] = []
        refusals: list[DppcaError] = []
        for each in policy.data_sets:
            yield from _forms(each, study)
            try:
                table = open_table(each.source, study.table)
                found = _refusals(site, study, each, table, history) if history is not None else ()
            except DppcaError as error:
                found = (error,)
            refusals += found
            if not found:
                fitting.append(f"{each.name} ({many(table.n_rows, 'rows')})")
        if fitting:
            yield Diagnosis("data", State.OK, f"study {name} can be served by {', '.join(fitting)}")
        else:
            # Not a fault of the site: no study of an operator may raise the site's alarms.
            reasons = "; ".join(str(error) for error in refusals)
            message = f"no data set can serve study {name}: {reasons}"
            yield Diagnosis("data", State.INFO, message)


def _forms(data_set: DataSet, study: Study) -> Iterator[Diagnosis]:
    """Propose how a data set is written, if more of its first rows is read then."""
    formats: Sequence[TextFormat] = ()
    with suppress(DppcaError):  # which the caller meets, too
        formats = propose_formats(data_set.source, study.table)
    if formats:
        text = "\n".join(format_lines(formats, data_set.name))
        yield Diagnosis("data", State.WARNING, f"study {study.name}: {text}")


def _engines(site: Site, policy: Policy | None, *, offline: bool) -> Iterator[Diagnosis]:
    """Examine the clusters: they must answer, and their workers must be like this machine."""
    for each in policy.data_sets if policy is not None else ():
        if each.engine == LOCAL:
            continue
        if offline:
            yield Diagnosis("engine", State.SKIPPED, "asked to stay offline")
            return
        try:
            with open_engine(each.engine, site.folder):
                message = f"{each.name}: every worker is like this machine"
                yield Diagnosis("engine", State.OK, message)
        except DppcaError as error:
            yield _broken("engine", error)


def _refusals(
    site: Site, study: Study, data_set: DataSet, table: Table, history: History
) -> tuple[DppcaError, ...]:
    """Return the refusals of `contribute`, by the same decisions; `DppcaError` if keys differ."""
    planned = review(
        study,
        history,
        n_rows=table.n_rows,
        account=data_set.account,
    )
    planned = replace(planned, request=request_of_rows(planned.request, table, data_set.engine))
    agree(site, study, digest=None)
    return find_refusals(planned, StudyState.OPEN, data_set, history, owner=site.name)


def _ledger(site: Site, view: CuratorView) -> tuple[list[Diagnosis], History | None]:
    try:
        history = read_archive(site.ledger).history
        if not_borne_out(view, history) != CuratorView():
            compare_ledger(site.ledger, view, lock=site.lock)  # keeps it, and so locks the site
        require_newest(site.ledger)
    except DppcaError as error:
        return [_broken("ledger", error)], None
    settled = f"; contributions recovered: {len(history.recoveries)}" if history.recoveries else ""
    settled += f"; disowned: {len(history.disowned)}" if history.disowned else ""
    entries = many(history.length, "entries")
    findings = [
        Diagnosis("ledger", State.OK, f"{entries}, and the chain verifies{settled}")
        if site.ledger.exists()
        else Diagnosis("ledger", State.OK, "no ledger, and nothing was charged: it is made again")
    ]
    reserved = history.reservations
    for request in (each.request for each in reserved if not is_finished(history, each)):
        where = "stored" if request.makes_file else "known to have arrived"
        message = (
            f"{request.title} is charged but not {where}: run {request.resume_command} "
            "(no further charge)"
        )
        findings.append(Diagnosis("ledger", State.WARNING, message))
    try:  # rights alone do not tell whether a disk is full or has turned read-only
        with TemporaryFile(dir=site.folder) as file:
            file.write(bytes(4096))
    except OSError as error:
        message = (
            f"{site.folder} cannot be written ({error.strerror}), so nothing can be charged: free "
            "space, make its disk writable or correct its permissions"
        )
        findings.append(_broken("ledger", LedgerError(message)))
    return findings, history


def _peers(site: Site) -> Iterator[Diagnosis]:
    try:
        read_peers(site)
    except DppcaError as error:
        yield _broken("peers", error)


def _openings(site: Site, waiting: dict[str, _Waiting], history: History) -> Iterator[Diagnosis]:
    """Examine the studies that wait for an opening by this site."""
    kept = list_opener_keys(site.openers)
    for name, each in waiting.items():
        entry = (each.study.openers or {}).get(site.name)
        if entry is None:
            continue
        key_id = hashlib.sha256(entry.key).hexdigest()
        record = history.openers.get(key_id)
        if record is None or (record.opening is None and key_id not in kept):
            message = (
                f"this site is an opener of study {name} but cannot open it: its opener key is "
                f"not {'in the ledger' if record is None else 'here any more'}. Tell the operator"
            )
            if record is None and not each.contributed:  # only the study names it as an opener
                yield Diagnosis("opener", State.WARNING, message)
            else:
                yield _broken("opener", OpeningRefusedError(message))
        elif not each.is_open and not record.is_done:
            message = f"study {name} waits for its openers: run `dppca-owner open {name}`"
            yield Diagnosis("opener", State.WARNING, message)


def _budgets(policy: Policy, history: History) -> Iterator[Diagnosis]:
    try:
        require_claimed(history, policy.populations)
    except DppcaError as error:
        yield _broken("budget", error)
    reported_names: set[str] = set()
    for each in policy.populations:
        total = history.total(each.name, policy.populations)
        used, left = spent(each.budget, total), remaining(each.budget, total)
        if used is None or used > each.budget.epsilon:
            message = (
                f"population {each.name} has been charged more than policy.yaml now allows: no "
                "further release is possible from its rows"
            )
            yield Diagnosis("budget", State.WARNING, message)
        elif left == 0:
            message = f"population {each.name} has spent its lifetime budget"
            yield Diagnosis("budget", State.WARNING, message)
        tied = [p.name for p in history.tied_to(each.name, policy.populations)]
        if tied and each.name not in reported_names and (total.epsilon or total.rho):
            reported_names.update(tied)
            message = (
                f"populations {', '.join((each.name, *tied))} share their charges: a data "
                "set or a source of one was charged for another, so every charge counts for all"
            )
            yield Diagnosis("budget", State.WARNING, message)


def _broken(area: str, error: DppcaError) -> Diagnosis:
    return Diagnosis(area, State.BROKEN, str(error), type(error).__name__, error.exit_code)
