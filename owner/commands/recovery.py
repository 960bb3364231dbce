"""The command `ledger recover`: charge again, or disown, what only the curator knows."""

from dataclasses import replace

from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.clock import read_unix_time, utc_now
from dppca.common.shell.console import say, terminal_width
from dppca.owner.client.calls import CuratorClient, allow_documents, compare_with_curator
from dppca.owner.client.recovery import (
    RecoveredContribution,
    acknowledgements,
    assign_data_sets,
    disownings,
    examine,
    make_recovery,
)
from dppca.owner.commands.budget_totals import population_budget
from dppca.owner.commands.consent import ask, require_terminal
from dppca.owner.ledger.chain import FIRST, History
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Disowning, Recovery
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.mark import (
    CuratorView,
    LedgerAge,
    find_ledger_age,
    not_borne_out,
    read_mark,
)
from dppca.owner.render.ledger import LedgerRecovery, RecoveredRelease, recovery_text
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import acknowledgement_path, save
from dppca.owner.site.opener_keys import destroy_opener_key, unbound_opener_keys
from dppca.owner.site.policy import Policy, load_policy


def recover_contributions(
    site: Site,
    client: CuratorClient,
    data_sets: tuple[str, ...],
    disown: tuple[str, ...],
    *,
    reason: str | None,
    yes: bool,
    quiet: bool,
) -> LedgerRecovery:
    """Show what would be entered, ask unless ``yes``, enter it, and unlock the site."""
    view = client.held()
    history, policy = read_history(site.ledger), load_policy(site)
    mark = read_mark(site.ledger)
    before = CuratorView() if mark is None else mark.missing
    theirs = {
        each.study: (each.study_digest, each.release_id)
        for each in (*before.unknown_to(history), *view.unknown_to(history))
    }
    refused = disownings(disown, theirs, reason=reason, now=utc_now())
    missing = _found(site, client, history, disowned=set(disown))
    chosen = assign_data_sets(missing, data_sets, policy)
    entries = [make_recovery(each, chosen[each.study.name], now=utc_now()) for each in missing]
    known = 0 if mark is None or history.has_prefix(mark.length, mark.head) else mark.length
    wrong = not_borne_out(view, history)
    restored = bool(known or entries) or find_ledger_age(mark) is LedgerAge.RESTORED
    recovery = replace(
        _describe(site, missing, entries, refused, history, policy),
        entries_known=max(known, wrong.length),
        restored=restored,
    )
    if entries or refused or recovery.entries_known or restored:
        text = recovery_text(recovery, width=terminal_width(err=True))
        if not yes:
            require_terminal(look="look at `dppca-owner doctor`")
            ask(text, "Enter this in the ledger?")
        elif not quiet:
            say(text, err=True)
    if restored:  # before the site is unlocked: they may have opened a set by a later ledger
        for key_id in unbound_opener_keys(site.openers, history.openers):
            destroy_opener_key(site.openers, key_id)
    _enter(site, client, [*entries, *refused], wrong)
    return replace(recovery, acknowledgements=_keep_acknowledgements(site, client))


def _found(
    site: Site, client: CuratorClient, history: History, *, disowned: set[str]
) -> list[RecoveredContribution]:
    """Return contributions that only the curator knows, without disowned ones; each is checked."""
    ca, allowed = site.ca.read_bytes(), allow_documents()
    return [
        examine(each, client.study(each.study, allowed)[0], history, owner=site.name, ca=ca)
        for each in client.contributions(lambda study: study not in disowned)
        if not history.knows(each.study_digest, each.release_id)
    ]


def _enter(
    site: Site, client: CuratorClient, entries: list[Recovery | Disowning], wrong: CuratorView
) -> None:
    """Write the entries, make the curator continue this chain, compare, and unlock the site.

    If the command is killed in between, the site stays locked; the same command continues from
    there.
    """
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        ledger.recover(entries)
        history = ledger.history()
    if wrong.length:
        checkpoint("send")
        client.continue_ledger(history, [each.release_id for each in client.contributions()])
    compare_with_curator(site, client)


def _keep_acknowledgements(site: Site, client: CuratorClient) -> tuple[str, ...]:
    """Keep the curator's acknowledgements of recovered contributions; return their files."""
    history = read_history(site.ledger)
    recovered = {each.request.study for each in history.recoveries.values()}
    signed = acknowledgements(
        client.contributions(recovered.__contains__),
        history,
        owner=site.name,
        ca=site.ca.read_bytes(),
    )
    for study, content in signed.items():
        save(acknowledgement_path(site, study), content)
    return tuple(str(acknowledgement_path(site, study)) for study in signed)


def _describe(
    site: Site,
    found: list[RecoveredContribution],
    entries: list[Recovery],
    refused: list[Disowning],
    history: History,
    policy: Policy,
) -> LedgerRecovery:
    after = history.copy()
    for entry in entries:
        after.add(entry, FIRST)
    return LedgerRecovery(
        owner=site.name,
        recovered=tuple(
            RecoveredRelease(
                study=each.study.name,
                data_set=entry.request.data_set,
                population=entry.request.account.population.name,
                release_id=each.release_id,
                received=read_unix_time(each.received_s),
                rows=each.receipt.n_rows,
                **entry.request.price.amounts(),
                charged_before=each.data_set is not None,
                unproved=each.unproved,
            )
            for each, entry in zip(found, entries, strict=True)
        ),
        disowned=tuple(refused),
        populations=tuple(
            population_budget(each.name, policy, after) for each in policy.populations
        ),
        entries=history.length,
        entries_known=0,
        restored=False,
    )


def recovered_text(recovery: LedgerRecovery) -> str:
    """Return what a recovery has done."""
    number, refused = len(recovery.recovered), len(recovery.disowned)
    if not number and not refused:
        known = "The ledger knows all that the curator holds of this site."
        kept = " It counts as the newest from now on." if recovery.restored else ""
        return f"{known}{kept} The site is not locked."
    return (
        f"Contributions recovered: {number}, disowned: {refused}. The site is not locked any "
        "more: `dppca-owner budget` shows what is left."
    )
