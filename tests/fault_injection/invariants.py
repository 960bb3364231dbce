"""Invariants of every study, independent of its faults.

Every ledger verifies, charges once, and has the bytes that it had before the fault; the curator has
those very bytes; its result is, bit for bit, the pool of the bytes *stored by the owners that took
part*; every owner that has the result has the same file. A sealed set never changes; an opener
opens that set, once, with sums that stay the same; its key is gone once they are stored. No age of
a row is in any file except the rows themselves, nor in any output of a command or the curator.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.csv

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.aggregation.sum_messages import Opening, Upload
from dppca.common.kernel.attestation.results import Result, result_from_bytes, result_to_bytes
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.curator.store import SqliteStore
from dppca.curator.study.aggregate import aggregate, aggregate_masked
from dppca.curator.study.sealed_set import make_terms
from dppca.curator.study.study_record import StudyRecord
from dppca.owner.ledger.database import StoredRelease, open_ledger
from dppca.owner.site.opener_keys import list_opener_keys

ENDED = (StudyState.DECOMPOSED, StudyState.CLOSED)


@dataclass(frozen=True)
class SiteState:
    """State of a site.

    ``charges`` and ``openings`` are counted in the ledger, for this study or any other. ``stored``
    is the study's release, and ``sums`` are those opened for it; None without. ``sent`` means that
    the ledger has the curator's acknowledgement. ``keys`` are opener keys in files; ``result`` is
    the result file, empty without one.
    """

    charges: int = 0
    stored: StoredRelease | None = None
    sent: bool = False
    openings: int = 0
    sums: Sums | None = None
    keys: tuple[str, ...] = ()
    result: bytes = b""


@dataclass(frozen=True)
class CuratorState:
    """State of a curator's study; ``record`` is None if there is no study."""

    record: StudyRecord | None = None
    payloads: Mapping[str, bytes] = field(default_factory=dict)
    result: bytes = b""

    @property
    def state(self) -> StudyState | None:
        return None if self.record is None else self.record.state

    @property
    def set_digest(self) -> str:
        """Digest of the sealed set, hexadecimal; empty without one."""
        sealing = None if self.record is None else self.record.sealing
        return "" if sealing is None else sealing.set_digest.hex()

    @property
    def openings(self) -> dict[str, bytes]:
        stored = () if self.record is None else self.record.openings
        return {each.opener: each.sha256 for each in stored}


def read_site(folder: Path, study: Study) -> SiteState:
    """Read a copy of a site; opening a copied journal is like a restart."""
    kept = folder / "studies" / study.name / "components.npz"
    result = kept.read_bytes() if kept.exists() else b""
    if not (folder / "ledger.sqlite").exists():
        return SiteState(result=result, keys=list_opener_keys(folder / "openers"))
    with open_ledger(folder / "ledger.sqlite", lock=folder / "lock") as ledger:
        history = ledger.history()
        committed = history.commitment_for(study.digest)
        opened = {
            each.opening.study_digest: key_id
            for key_id, each in history.openers.items()
            if each.opening is not None
        }
        return SiteState(
            charges=len(history.reservations),
            stored=None if committed is None else ledger.stored(study.digest),
            sent=committed is not None and committed.release_id in history.deliveries,
            openings=len(opened),
            sums=ledger.sums(opened[study.digest]) if study.digest in opened else None,
            keys=list_opener_keys(folder / "openers"),
            result=result,
        )


def read_curator(folder: Path, study: Study) -> CuratorState:
    if not (folder / "curator.sqlite").exists():
        return CuratorState()
    with closing(SqliteStore(folder)) as store:
        record = store.named(study.name)
        if record is None:
            return CuratorState()
        payloads = {each.owner: store.blobs.read(each.sha256) for each in record.contributions}
        result = b"" if record.result is None else store.blobs.read(record.result.sha256)
        return CuratorState(record, payloads, result)


def broken_sites(
    before: Mapping[str, SiteState], sites: Mapping[str, SiteState], curator: CuratorState
) -> Iterator[str]:
    """Yield every broken promise of a site; ``before`` has sites at their fault."""
    for owner, site in sites.items():
        if site.charges > 1:
            yield f"{owner} was charged {site.charges} times"
        if site.sent and owner not in curator.payloads:
            yield f"{owner}'s ledger says sent, and the curator does not have it"
        if site.openings > 1:
            yield f"{owner} has opened {site.openings} sets"
        if site.sums is not None and site.sums.set_digest != curator.set_digest:
            yield f"{owner} has opened another set than the curator has sealed"
        if site.result and site.result != curator.result:
            yield f"{owner} has another result than the curator"
        earlier = before.get(owner, SiteState())
        if site.charges < earlier.charges:
            yield f"{owner}'s ledger has lost a charge"
        if earlier.stored not in (None, site.stored):
            yield f"{owner}'s released bytes are not those from before the fault"
        if earlier.sums not in (None, site.sums):
            yield f"{owner}'s sums are not those from before the fault"


def broken_curator(
    before: list[CuratorState], sites: Mapping[str, SiteState], curator: CuratorState
) -> Iterator[str]:
    """Yield every broken promise of the curator; ``before`` has its states at each fault."""
    for earlier in before:
        if not earlier.payloads.items() <= curator.payloads.items():
            yield "the curator no longer has what owners had sent before the fault"
        if earlier.set_digest not in ("", curator.set_digest):
            yield "the curator's sealed set is not that from before the fault"
        if not earlier.openings.items() <= curator.openings.items():
            yield "the curator no longer has the openings from before the fault"
        if earlier.result not in (b"", curator.result):
            yield "the curator's result is not that from before the fault"
    for contribution in () if curator.record is None else curator.record.contributions:
        owner, stored = contribution.owner, sites[contribution.owner].stored
        if stored is None:
            yield f"the curator has bytes of {owner} that its ledger does not"
        elif (stored.payload, stored.receipt) != (
            curator.payloads[owner],
            contribution.release.receipt.canonical_bytes(),
        ):
            yield f"the curator's bytes of {owner} are not those that {owner} stored"
    for opener, sha256 in curator.openings.items():
        sums = sites[opener].sums
        totals = () if sums is None else (total for _, total in sums.totals)
        if sha256 not in (hashlib.sha256(total).digest() for total in totals):
            yield f"the curator's opening of {opener} is not what {opener} stored"


def broken_result(
    study: Study, sites: Mapping[str, SiteState], curator: CuratorState
) -> Iterator[str]:
    """Say if the result is missing or not the pool of the owners' stored bytes."""
    if curator.record is None or not curator.result:
        if curator.state in ENDED:
            yield "the study has ended and has no result"
        return
    pooled = result_from_bytes(result_to_bytes(_pool(curator.record, sites)), study)
    if _bits(pooled) != _bits(result_from_bytes(curator.result, study)):
        yield "the result is not, bit for bit, what the owners' stored bytes pool to"


def files_with_rows(site: Path, files: Iterable[Path], said: Mapping[str, bytes]) -> list[str]:
    """Names of files and outputs that contain an age of a site's rows."""
    data = site / "rows.csv"
    ages = pyarrow.csv.read_csv(data)["age"].to_pylist()
    marks = [mark for age in ages for mark in (repr(age).encode(), struct.pack("<d", age))]
    assert all(marks[i] in data.read_bytes() for i in range(0, len(marks), 2))
    held = {**said, **{str(path): path.read_bytes() for path in files if path.is_file()}}
    return [name for name, content in held.items() if any(mark in content for mark in marks)]


def _pool(record: StudyRecord, sites: Mapping[str, SiteState]) -> Result:
    """Compute the result, without a receipt, from the stored bytes of the owners that took part."""
    study, contributions = record.study, record.contributions
    stored = [sites[owner].stored for owner in record.contributed]
    contents = [b"" if each is None else each.payload for each in stored]
    if record.sealing is None:
        vectors = [np.frombuffer(content, "<i8").astype(np.int64) for content in contents]
        return aggregate(study, calibrate(study), contributions, vectors)
    terms = make_terms(study)
    uploads = [Upload.from_bytes(content, terms) for content in contents]
    totals = {
        (opener, stream): total
        for opener, site in sites.items()
        for stream, total in (() if site.sums is None else site.sums.totals)
    }
    openings = [
        Opening(terms.digest, record.sealing.set_digest.hex(), each.opener, each.streams, total)
        for each in record.openings
        for total in [totals[each.opener, each.streams[0]]]
    ]
    return aggregate_masked(study, calibrate(study), contributions, uploads, openings)


def _bits(result: Result) -> tuple[object, ...]:
    """Content of a result file except the curator's receipt, whose signature is random."""
    arrays = (result.pooled, result.within, result.mean, result.eigenvalues, result.vectors)
    return (
        result.header,
        *(None if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in arrays),
    )
