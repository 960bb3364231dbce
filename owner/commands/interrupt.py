"""Messages of a command that was cut off or failed: what was charged, according to the ledger.

Ctrl-C, a full disk or a lost connection may come before the charge, after it, or while the bytes
are on their way. The command cannot know which, so the ledger is read again.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from dppca.common.kernel.errors import DppcaError
from dppca.common.shell.console import telling_failures, telling_interrupts
from dppca.owner.ledger.chain import History, is_finished
from dppca.owner.ledger.entries import Recovery, Reservation
from dppca.owner.ledger.file import read_history
from dppca.owner.site.config import Site

_UNREADABLE = (
    "the ledger cannot be read. Nobody knows whether anything was charged: run `dppca-owner doctor`"
)


@contextmanager
def report_charges(site: Site, study: str) -> Iterator[None]:
    """Report the charges for a study if the block is interrupted, or fails after a charge."""
    before = known_history(site)

    with (
        telling_failures(lambda: _standing_text(before, known_history(site), study)),
        telling_interrupts(
            lambda: f"interrupted: {charges_text(before, known_history(site), study)}"
        ),
    ):
        yield


def _standing_text(before: History | None, after: History | None, study: str) -> str:
    """Return the charges that stand though their command failed; empty if there are none."""
    if before is None or after is None:
        return ""  # the error is the ledger's own
    ours = [each for each in after.reservations if each.request.study == study]
    if all(each.release_id in before.reserved and is_finished(after, each) for each in ours):
        return ""
    new = [each for each in ours if each.release_id not in before.reserved]
    waiting = [each for each in ours if each in new or not is_finished(after, each)]
    stands = [f"{_describe_charge(each)}, and this charge stands" for each in new]
    return ". ".join([*stands, *(_describe_progress(each, after) for each in waiting)])


def report_entries_on_interrupt(site: Site) -> AbstractContextManager[None]:
    """Report the block's entries in the ledger if it is interrupted."""
    before = known_history(site)
    return telling_interrupts(lambda: f"interrupted: {entered_text(before, known_history(site))}")


def entered_text(before: History | None, after: History | None) -> str:
    """Return an interrupted recovery's entries and the next step; arguments as `charges_text`."""
    if before is None or after is None:
        return _UNREADABLE
    charged = [
        _describe_charge(each)
        for each in after.recoveries.values()
        if each.release_id not in before.recoveries
    ]
    disowned = [
        f"the contribution to {each.study} was disowned"
        for each in after.disowned.values()
        if each.release_id not in before.disowned
    ]
    if not charged and not disowned:
        return "nothing was entered in the ledger, and nothing was charged"
    return (
        f"{'; '.join([*charged, *disowned])}. Run the same command again: it continues, "
        "and charges nothing twice"
    )


def charges_text(before: History | None, after: History | None, study: str | None = None) -> str:
    """Return the charges of a command and the next step.

    ``before`` and ``after`` are the state of the ledger when the command began, and now; None if it
    could not be read. ``study`` is the one that the command is for; None for any.
    """
    if before is None or after is None:
        return _UNREADABLE
    ours = [each for each in after.reservations if study in (None, each.request.study)]
    new = [each for each in ours if each.release_id not in before.reserved]
    charged = [_describe_charge(each) for each in new] or ["nothing was charged by this command"]
    waiting = [
        _describe_progress(each, after)
        for each in ours
        if each in new or not is_finished(after, each)
    ]
    return ". ".join(["; ".join(charged), *waiting])


def known_history(site: Site) -> History | None:
    """Read the ledger; return None if it cannot be read."""
    try:
        return read_history(site.ledger)
    except DppcaError:
        return None


def _describe_charge(entry: Reservation | Recovery) -> str:
    request = entry.request
    return (
        f"{request.title} was charged to population {request.account.population.name} "
        f"({request.price.claim_text})"
    )


def _describe_progress(reservation: Reservation, history: History) -> str:
    request = reservation.request
    if reservation.release_id not in history.commitments:
        return (
            f"Nothing of {request.title} was kept or sent yet: run {request.resume_command}, at no "
            "further charge"
        )
    if request.makes_file:
        return (
            f"The ledger holds {request.title}: run {request.resume_command}, which writes its "
            "file at no further charge"
        )
    if reservation.release_id in history.deliveries:
        return f"The contribution to {request.title} has arrived at the curator"
    return (
        f"The contribution to {request.title} is in the ledger and may have arrived at the "
        f"curator: run {request.resume_command}, which sends the same bytes at no further charge"
    )
