"""What an interrupted command says: whether anything was charged, according to the ledger.

Ctrl-C may come before the charge, after it, or while the bytes are on their way. What was meant to
happen says nothing about that, so the ledger is read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from dppca.common.amounts import decimal_text
from dppca.common.errors import DppcaError
from dppca.owner.ledger.chain import History, is_finished
from dppca.owner.ledger.entries import Reservation
from dppca.owner.ledger.reading import read_history
from dppca.owner.site.config import Site


@contextmanager
def report_charges_on_interrupt(site: Site, study: str) -> Iterator[None]:
    """If the block is interrupted, say what was charged for a study."""
    before = _history(site)
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        raise KeyboardInterrupt(interrupted_text(before, _history(site), study)) from None


def interrupted_text(before: History | None, after: History | None, study: str) -> str:
    """What an interrupt left behind, and what to do.

    Parameters
    ----------
    before, after
        The ledger when the command began and now; None where it could not be read.
    """
    if before is None or after is None:
        return (
            "interrupted, and the ledger cannot be read, so it is not known whether anything was "
            "charged: run `dppca-owner doctor`"
        )
    known = {each.release_id for each in before.reservations}
    ours = [each for each in after.reservations if each.request.study == study]
    new = [each for each in ours if each.release_id not in known]
    charged = [_describe_charge(each) for each in new] or ["nothing was charged by this command"]
    waiting = [
        _describe_progress(each, after)
        for each in ours
        if each in new or not is_finished(after, each)
    ]
    return ". ".join([f"interrupted: {'; '.join(charged)}", *waiting])


def _history(site: Site) -> History | None:
    try:
        return read_history(site.ledger)
    except DppcaError:
        return None


def _describe_charge(made: Reservation) -> str:
    request = made.request
    return (
        f"{request.title} was charged to population {request.account.population.name} (epsilon "
        f"{decimal_text(request.epsilon)}, delta {decimal_text(request.delta)})"
    )


def _describe_progress(made: Reservation, history: History) -> str:
    request = made.request
    if made.release_id not in history.commitments:
        return (
            f"Nothing of {request.title} was kept or sent yet: run {request.resume_command}, at no "
            "further charge"
        )
    if request.makes_file:
        return (
            f"The ledger holds {request.title}: run {request.resume_command}, which writes its "
            "file at no further charge"
        )
    if made.release_id in history.deliveries:
        return f"The contribution to {request.title} has arrived at the curator"
    return (
        f"The contribution to {request.title} is in the ledger and may have arrived at the "
        f"curator: run {request.resume_command}, which sends the same bytes at no further charge"
    )
