"""The command `studies`: list the studies of a curator that name a site, once or again."""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC
from functools import partial

import click

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    BusyError,
    DppcaError,
    NoPolicyError,
    PeerError,
    PrivacyError,
    SettingError,
    StoreError,
    StudyError,
    UnreachableError,
    UploadError,
)
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.common.shell.console import say
from dppca.common.transport.allowance import Allowance
from dppca.owner.client.calls import POLL_S, CuratorClient, StudySummary, allow_documents
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import record_for
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.render.studies import (
    Badge,
    Group,
    OwnStudies,
    OwnStudy,
    Standing,
    advise,
    studies_text,
    waiting_text,
)
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import components_path
from dppca.owner.site.policy import Policy, load_policy
from dppca.owner.site.study_answers import kept_answer


def list_studies(site: Site, client: CuratorClient, known: dict[str, Study]) -> OwnStudies:
    """Return the curator's studies that name a site, each with the site's state in it.

    Parameters
    ----------
    known
        Studies that were fetched before, by digest; new ones are added.
    """
    summaries, history = client.studies(), read_history(site.ledger)
    policy = find_policy(site)
    allowed = allow_documents()
    listed = [
        _list(site, each, history, policy, partial(_fetch, client, each, known, allowed))
        for each in summaries
    ]
    return OwnStudies(site.curator, listed)


def _list(
    site: Site,
    found: StudySummary,
    history: History,
    policy: Policy | DppcaError,
    fetch: Callable[[], Study],
) -> OwnStudy:
    try:
        study = fetch()
        calibration = calibrate(study)
    except (StudyError, PrivacyError, SettingError, UploadError) as error:
        refused = f"nothing: its document is refused ({error}); tell the operator"
        badge = Badge(Group.YOU, "refused here", "bad")
        return OwnStudy(**asdict(found), badge=badge, next=refused)
    deadline = study.deadline
    standing = find_standing(
        site, study, found.state, history, policy, contributed=found.contributed
    )
    waits_for = waiting_text(standing, found.owners - found.contributions)
    until = study.open_by if found.state is StudyState.SEALED else deadline
    left = None if deadline is None else (deadline - utc_now()).total_seconds()
    return OwnStudy(
        **asdict(found),
        title=study.title,
        waits_for=waits_for,
        until=until.astimezone(UTC) if until is not None and waits_for else None,
        deadline=None if deadline is None else deadline.astimezone(UTC),
        seconds_left=None if left is None else max(0, int(left)),
        epsilon=calibration.epsilon,
        delta=calibration.delta,
        badge=standing.badge,
        next=advise(study.name, standing),
    )


def find_standing(
    site: Site,
    study: Study,
    state: StudyState,
    history: History,
    policy: Policy | DppcaError,
    *,
    contributed: bool,
) -> Standing:
    """Return where a site stands in a study.

    Parameters
    ----------
    policy
        The site's policy, or the reason why there is none.
    contributed
        True if the curator holds a contribution of this site.
    """
    step, uncovered = decide_step(history, study.digest), ""
    if state is StudyState.OPEN and step is NextStep.RESERVE:
        from dppca.owner.commands.coverage import find_uncovered

        refusals = (
            find_uncovered(study, policy, history, owner=site.name)
            if isinstance(policy, Policy)
            else [policy]
        )
        uncovered = "; ".join(map(str, refusals))
    record = record_for(history.openers, study, site.name)
    answer = kept_answer(site, study.name)
    return Standing(
        state=state,
        is_held=contributed,
        step=step,
        is_over=study.deadline_passed(utc_now()),
        opens=site.name in (study.openers or {}) and (record is None or not record.is_done),
        has_components=components_path(site, study.name).exists(),
        uncovered=uncovered,
        answer=None if answer is None else answer.answer,
    )


def find_policy(site: Site) -> Policy | DppcaError:
    """Return the site's policy, or the reason why there is none."""
    try:
        return load_policy(site)
    except (NoPolicyError, SettingError) as error:
        return error


def _fetch(
    client: CuratorClient, found: StudySummary, known: dict[str, Study], allowed: Allowance
) -> Study:
    if found.digest not in known:
        study, _ = client.study(found.name, allowed)
        if study.digest != found.digest:
            raise UploadError("it is not the one that is listed")
        known[found.digest] = study
    return known[found.digest]


def watch_studies(site: Site, client: CuratorClient, known: dict[str, Study]) -> None:
    """Show the list again and again, also while the curator is away or cannot answer."""
    shown: object = None
    while True:
        try:
            found = list_studies(site, client, known)
            text = studies_text(found)
            state: object = [replace(each, seconds_left=None) for each in found.studies]
        except (UnreachableError, BusyError, StoreError, PeerError) as error:
            text = state = f"not known now: {error}"
        if sys.stdout.isatty():
            click.clear()
            say(f"{text}\n\n{utc_now():%H:%M:%S} UTC; every {POLL_S:.0f} s. Ctrl-C ends.")
        elif state != shown:
            say(text)
        shown = state
        time.sleep(POLL_S)
