"""What the daemon asks of a store.

Rules for every implementation:

* `save` and `create` are all or nothing, and durable when they return. After a failure the store
  answers as before it.
* Bytes are durable before anything refers to them. What nothing refers to is removed when the
  store is opened.
* One process at a time: opening a store that is in use fails.
* Writing is for one thread at a time; the questions (`study`, `named`, `studies`, `history`) may
  be asked from any thread and never wait for a disk.
* Whatever the disk or database does, callers see `StoreError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dppca.curator.store.blobs import Spool
from dppca.curator.study.study_record import OwnerHistory, Settlement, StudyRecord


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Bytes of a store's files, and of the room that its disk has left for it."""

    database_bytes: int
    upload_bytes: int
    arriving_bytes: int
    free_bytes: int


class Store(Protocol):
    """Studies, contributions, openings and published rows."""

    def study(self, digest: bytes) -> StudyRecord | None:
        """The study of this digest (32 bytes)."""

    def named(self, name: str) -> StudyRecord | None:
        """The study of this name."""

    def studies(self) -> tuple[StudyRecord, ...]:
        """All studies, newest first."""

    def history(self, owner: str) -> OwnerHistory:
        """What has been seen of an owner, over all studies."""

    def create(self, record: StudyRecord) -> None:
        """Store a new study; its name and digest must be new."""

    def save(self, record: StudyRecord, *uploads: Spool) -> None:
        """Store what is new in a study, in one transaction.

        Parameters
        ----------
        record
            The stored study after one or more steps of `dppca.curator.study.lifecycle`,
            `dppca.curator.study.admission` or `dppca.curator.study.openings`.
        uploads
            The bytes that the steps refer to, complete; from `spool`. After a failure they may be
            given again.
        """

    def settle(self, owner: str, settlement: Settlement) -> None:
        """Set aside what was seen of an owner's chain; all or nothing, as `save`.

        It takes the place of the settlement of its kind.
        """

    def spool(self) -> Spool:
        """A new file for bytes that are arriving; a context manager."""

    def content(self, sha256: bytes) -> Path:
        """Where the stored bytes of this digest lie; `StoreError` where they are gone."""

    def read(self, sha256: bytes) -> bytes:
        """Stored bytes, compared with their digest; `StoreError` where they differ."""

    def read_into(self, sha256: bytes, buffer: memoryview) -> None:
        """As `read`, into bytes of the caller's, which are as many; it may be used again."""

    def check(self) -> None:
        """Raise `StoreError` unless bytes, their names and rows can all be written."""

    def size(self) -> StoreSize:
        """Bytes on the disk now; may be asked from any thread, and asks the disk."""

    def close(self) -> None:
        """Release the store to another process."""
