"""Reserve, draw, commit, send: the one path on which anything computed from rows leaves a site.

::

    reserve ──▶ draw ──▶ commit ──▶ send ──▶ sent
       │          │         │         └─ killed here: the same bytes are sent again
       │          │         └─ killed here: the bytes are found, and sent
       │          └─ killed here: nothing was kept; drawn again, under the same reservation
       └─ killed here: the charge stands, and is found again

Rows are read *before* the reservation: a file that cannot be read costs nothing. Consent is asked
before that; once noise is drawn the release is sent, because to withhold it after comparing it
with the rows would itself be a release, and not paid for. The noise comes from the entropy source
that is passed in, which is the operating system's for anything that leaves.

A model (`owner.model_release`) goes the same way up to its stored bytes. It is not sent: whoever
asked for it hands its file over, and the same bytes are written again as often as asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from common.checkpoints import checkpoint
from common.conversation import RELEASE_ID_BYTES
from common.numerics.moments import Moments
from common.privacy.entropy import EntropySource
from common.privacy.release import draw
from common.study import Study
from owner.ledger.chain import History
from owner.ledger.database import Drawn, Ledger, Receipt, StoredRelease
from owner.ledger.entries import Reservation, Wanted

_Answer = TypeVar("_Answer")
_Receipt = TypeVar("_Receipt", bound=Receipt)


@dataclass(frozen=True, slots=True)
class FileRelease(Generic[_Receipt]):
    """What may leave as a file, with its noise, as the ledger stores it: a `Drawn`.

    ``digest`` is that of the request it was reserved under, ``content`` the file.
    """

    digest: str
    release_id: bytes
    n_rows: int
    receipt: _Receipt
    content: bytes

    def payload(self) -> bytes:
        """The file."""
        return self.content


def make_release(
    ledger: Ledger,
    study: Study,
    wanted: Wanted,
    moments: Moments,
    *,
    entropy: EntropySource,
    clock: Callable[[], datetime],
) -> StoredRelease:
    """Charge a study, draw its noise, and store the bytes; or find them stored.

    Parameters
    ----------
    wanted
        The charge, against the data set that ``moments`` were computed from.
    moments
        Exact sums over the rows: private until noise is on them.
    clock
        Gives aware times.

    Raises
    ------
    BudgetExceededError, SettingError, LedgerError
        As `Ledger.reserve` and `Ledger.commit` do.
    """

    def noised(reservation: Reservation) -> Drawn:
        return draw(
            study,
            moments,
            release_id=reservation.release_id,
            ledger_sequence=reservation.sequence,
            entropy=entropy,
        )

    return store_release(ledger, wanted, noised, entropy=entropy, clock=clock)


def store_release(
    ledger: Ledger,
    wanted: Wanted,
    noised: Callable[[Reservation], Drawn],
    *,
    entropy: EntropySource,
    clock: Callable[[], datetime],
) -> StoredRelease:
    """Charge, draw by ``noised`` under the reservation, and store; or find what is stored.

    Raises as `make_release` does.
    """
    if ledger.history().commitment_for(wanted.study_digest) is not None:
        return ledger.stored(wanted.study_digest)
    reservation = ledger.reserve(wanted, release_id=entropy.bytes(RELEASE_ID_BYTES), now=clock())
    checkpoint("reserve")
    release = noised(reservation)
    checkpoint("draw")
    stored = ledger.commit(release, now=clock())
    checkpoint("commit")
    return stored


def send_release(
    ledger: Ledger,
    stored: StoredRelease,
    upload: Callable[[StoredRelease, History], _Answer],
    *,
    clock: Callable[[], datetime],
) -> _Answer:
    """Send stored bytes, and write down that the curator has acknowledged them.

    The chain's length and head go with them as they are *now*: were an older pair sent again after
    another release, the curator would take it for an old copy of the ledger.
    """
    answer = upload(stored, ledger.history())
    checkpoint("acknowledge")
    ledger.mark_sent(stored.reservation.release_id, now=clock())
    return answer
