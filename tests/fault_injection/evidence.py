"""What a cell left behind, read from copies of the parties' files."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from dppca.common.aggregation.opening import Sums
from dppca.common.errors import DppcaError
from dppca.common.messages import StudyState
from dppca.common.study import Study
from dppca.curator.store import SqliteStore
from dppca.curator.study.study_record import Contribution
from dppca.owner.ledger.database import StoredRelease, open_ledger
from dppca.owner.site.opener_keys import list_opener_keys
from tests.fault_injection.fixture import STUDY_NAME


@dataclass(frozen=True, slots=True)
class SiteEvidence:
    """What one site holds.

    Attributes
    ----------
    fault
        Why the ledger does not verify; empty where it does.
    charges
        Reservations in the ledger, of this study or any other.
    stored
        The release as it is stored; None where none is.
    sent
        Whether the ledger says that the curator has acknowledged it.
    result
        The result file as the owner has it, empty without one.
    openings
        Openings in the ledger, of this study or any other.
    sums
        What the opener key of this study has opened; None where nothing was.
    keys
        Opener keys that are kept.
    """

    fault: str = ""
    charges: int = 0
    stored: StoredRelease | None = None
    sent: bool = False
    result: bytes = b""
    openings: int = 0
    sums: Sums | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HubEvidence:
    """What the curator's store holds of the study; `state` is None where there is no study.

    Attributes
    ----------
    set_digest
        Digest of the sealed set, hexadecimal; empty where none is.
    openings
        SHA-256 of each opener's sum.
    """

    state: StudyState | None = None
    reason: str = ""
    contributions: tuple[Contribution, ...] = ()
    payloads: Mapping[str, bytes] = field(default_factory=dict)
    result: bytes = b""
    fault: str = ""
    set_digest: str = ""
    openings: Mapping[str, bytes] = field(default_factory=dict)


def read_site(folder: Path, study: Study) -> SiteEvidence:
    """Read a copy of a site; opening a copied journal is what a restart does."""
    result = folder / "studies" / STUDY_NAME / "components.npz"
    kept = result.read_bytes() if result.exists() else b""
    if not (folder / "ledger.sqlite").exists():
        return SiteEvidence(result=kept)
    try:
        with open_ledger(folder / "ledger.sqlite", lock=folder / "lock") as ledger:
            history = ledger.history()
            committed = history.commitment_for(study.digest)
            opened = {
                each.opening.study_digest: key_id
                for key_id, each in history.openers.items()
                if each.opening is not None
            }
            mine = opened.get(study.digest)
            return SiteEvidence(
                charges=len(history.reservations),
                stored=None if committed is None else ledger.stored(study.digest),
                sent=committed is not None and committed.release_id in history.deliveries,
                result=kept,
                openings=len(opened),
                sums=None if mine is None else ledger.sums(mine),
                keys=list_opener_keys(folder / "openers"),
            )
    except DppcaError as error:
        return SiteEvidence(fault=str(error), result=kept)


def read_hub(folder: Path, study: Study) -> HubEvidence:
    """Read a copy of the curator's state folder."""
    if not (folder / "curator.sqlite").exists():
        return HubEvidence()
    try:
        with closing(SqliteStore(folder)) as store:
            record = store.named(study.name)
            if record is None:
                return HubEvidence()
            return HubEvidence(
                state=record.state,
                reason=record.reason,
                contributions=record.contributions,
                payloads={c.owner: store.read(c.sha256) for c in record.contributions},
                result=b"" if record.result is None else store.read(record.result.sha256),
                set_digest="" if record.sealing is None else record.sealing.set_digest.hex(),
                openings={each.opener: each.sha256 for each in record.openings},
            )
    except DppcaError as error:
        return HubEvidence(fault=str(error))
