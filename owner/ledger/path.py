"""Reserve, draw, commit, send: the one path on which anything computed from rows leaves a site.

::

    prepared ──▶ reserve ──▶ draw ──▶ commit ──▶ send, or hand over
                   │          │         │         └─ killed here: the same bytes
                   │          │         └─ killed here: the bytes are found
                   │          └─ killed here: nothing was kept; drawn again, by the same reservation
                   └─ killed here: the charge stands, and is found again

Each kind of release is a `ReleasePlan` with all its public facts. What can fail comes before the
reservation (`dppca.owner.release.run`). Once noise is drawn the release is sent: to compare it with
the rows and then withhold it would itself be a release, and an unpaid one. The noise comes from the
entropy source that is passed in, which is the operating system's for everything that leaves. A
contribution is sent to a curator; a model is a file, which is written again on every request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from dppca.common.kernel.aggregation.contribution import MaskedRelease, draw_masked
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.messages import RELEASE_ID_BYTES
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.release import Release, draw
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import Ledger, NoisedRelease, StoredRelease
from dppca.owner.ledger.entries import ReleaseRequest, Reservation

_Answer = TypeVar("_Answer")
_Prepared = TypeVar("_Prepared")
_PreparedIn = TypeVar("_PreparedIn", contravariant=True)


class ReleasePlan(Protocol[_PreparedIn]):
    """One release, planned from public numbers."""

    def draw(
        self, prepared: _PreparedIn, reservation: Reservation, *, entropy: EntropySource
    ) -> NoisedRelease:
        """Draw the noise once, after the charge has been reserved.

        ``prepared`` are values computed from rows, private until the noise is added; ``entropy`` is
        `OperatingSystemEntropy` except in tests.
        """


@dataclass(frozen=True, slots=True)
class ContributionPlan:
    """A contribution to a study: noise on the exact sums over the site's rows."""

    study: Study
    calibration: Calibration

    def draw(
        self, prepared: Moments, reservation: Reservation, *, entropy: EntropySource
    ) -> Release:
        """Draw the noise of one contribution (`ReleasePlan.draw`)."""
        return draw(
            self.study,
            self.calibration,
            prepared,
            release_id=reservation.release_id,
            ledger_sequence=reservation.sequence,
            entropy=entropy,
        )


@dataclass(frozen=True, slots=True)
class MaskedPlan:
    """A contribution to a study with ``trust: aggregate``: a share of the noise, and masks.

    ``owner`` is this site's name; ``key``, of its certificate, signs the part that openers see.
    """

    study: Study
    calibration: Calibration
    terms: Terms
    owner: str
    key: EllipticCurvePrivateKey

    def draw(
        self, prepared: Moments, reservation: Reservation, *, entropy: EntropySource
    ) -> MaskedRelease:
        """Draw noise and masks; the noised sums without masks, and the seeds, are never stored."""
        return draw_masked(
            self.study,
            self.calibration,
            prepared,
            terms=self.terms,
            owner=self.owner,
            key=self.key,
            release_id=reservation.release_id,
            ledger_sequence=reservation.sequence,
            entropy=entropy,
        )


def store_release(
    ledger: Ledger,
    request: ReleaseRequest,
    plan: ReleasePlan[_Prepared],
    prepared: _Prepared,
    *,
    entropy: EntropySource,
    clock: Callable[[], datetime],
) -> StoredRelease:
    """Charge a release, draw its noise, and store the bytes; return stored bytes if they exist.

    ``request`` charges the population of the rows that ``prepared``, private until noise is added,
    was computed from. ``clock`` gives aware times. Raise `BudgetExceededError`, `SettingError` or
    `LedgerError` as `Ledger.reserve` and `Ledger.commit` do.
    """
    if ledger.history().commitment_for(request.request_digest) is not None:
        return ledger.stored(request.request_digest)
    # Rows and study are not checked again: what can fail did so before (`OpenedRelease.prepare`).
    reservation = ledger.reserve(request, release_id=entropy.bytes(RELEASE_ID_BYTES), now=clock())
    checkpoint("reserve")
    release = plan.draw(prepared, reservation, entropy=entropy)
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
    """Send stored bytes, and record that the curator has acknowledged them.

    They go with the chain's length and head as these are *now*: if an older pair were sent again
    after another release, the curator would take it for an old copy of the ledger.
    """
    answer = upload(stored, ledger.history())
    checkpoint("acknowledge")
    ledger.mark_sent(stored.reservation.release_id, now=clock())
    return answer
