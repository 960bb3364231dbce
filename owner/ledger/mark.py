"""Detection of an outdated ledger.

A ledger cannot know that it is old. Two witnesses can:

* *This site.* The mark holds the chain's length and head. It is written after every transaction,
  before anything is drawn, voted or sent, so a ledger that lacks entries which the mark knows is
  locked, however a command ended and however the older copy came into its place.
* *A curator.* It lists this site's releases and the chain it has seen (`CuratorView`).
  If this ledger lacks any of these, the mark keeps them and locks the ledger, for every kind of
  charge and across commands, until the newest copy is back or the steward has recovered them
  (`dppca.owner.client.recovery`).

The mark could be put back together with the ledger. So there are two files, written in turn, and
each holds the change time of the other, which was final when it was written::

    ledger.mark    mark 7, of the chain after entry 5 ◀─┐ mark 8 holds the change time
    ledger.mark2   mark 8, of the chain after entry 6 ──┘ of the file of mark 7

The one with the higher number counts. No tool can give a file a change time of its choice, so marks
that were restored, copied or moved to another disk do not fit together, and the ledger is locked
until its steward says that it is the newest (`LedgerAge`). A file is replaced whole, so that a
command that is killed at any moment leaves two marks that fit.

Not detected: a disk or machine that was set back as a whole, with its change times (a curator finds
what it holds and the ledger lacks). On Windows a file has no change time, and the later of its
creation and last writing stands in for it: files that a tool overwrote in place, with their old
times, are not detected either. Change times have the resolution of the file system, mostly 1 to
10 ms.
"""

import json
import os
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from dppca.common.kernel.durable.files import HAS_MODES, sync, write_file
from dppca.common.kernel.errors import ChainError, LedgerError
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.tools import require_prefix

_VERSION = 2
_SLOTS = (".mark", ".mark2")
_SHOWN = 8
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class ContributionRecord:
    """One contribution of this site in a curator's record; nothing in it is verified.

    ``release_id`` is empty if the curator's version does not report it. ``envelope`` holds the
    receipt, ``acknowledgement`` is the curator's signed one; both are empty, and ``received_s`` 0,
    where the curator has only listed the contribution.
    """

    study: str
    study_digest: str
    release_id: bytes
    envelope: bytes = b""
    received_s: int = 0
    acknowledgement: bytes = b""


@dataclass(frozen=True, slots=True)
class CuratorView:
    """A curator's record of this site: contributions, and the chain it has seen (0: none)."""

    releases: tuple[ContributionRecord, ...] = ()
    length: int = 0
    head: bytes = b""

    def unknown_to(self, history: History) -> tuple[ContributionRecord, ...]:
        """Contributions that the ledger does not contain."""
        return tuple(r for r in self.releases if not history.knows(r.study_digest, r.release_id))


class LedgerAge(StrEnum):
    """Whether a ledger is the newest, as far as this site knows.

    ``NEWEST``: it has every charge of this site. ``UNCOMPARED``: nothing was charged to it yet, or
    version 0.1.0 left it and cannot tell; a curator is asked once. ``RESTORED``: its marks are not
    as this site left them; it is locked until the steward recovers it.
    """

    NEWEST = "newest"
    UNCOMPARED = "uncompared"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Mark:
    """Content of the mark.

    ``length`` and ``head`` are the chain's. ``missing`` is the part of a curator's record that the
    ledger does not contain.
    """

    length: int
    head: bytes
    missing: CuratorView = CuratorView()
    standing: LedgerAge = LedgerAge.NEWEST


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the mark; ``other_ns`` is the change time that it gives the file before it."""

    path: Path
    number: int
    changed_ns: int
    other_ns: int
    mark: Mark


def mark_paths(ledger: Path) -> tuple[Path, ...]:
    """Paths of the files of a ledger's mark."""
    return tuple(ledger.with_suffix(suffix) for suffix in _SLOTS)


def read_mark(ledger: Path) -> Mark | None:
    """Return a ledger's mark, or None if there is none or it is damaged.

    A reader without the site's lock may see two files of different moments: it looks again.
    """
    for _ in range(_LOOKS):
        files = _read_files(ledger)
        if not files:
            return None
        newest, *before = files
        as_left = newest.number == 0 or [newest.other_ns] == [each.changed_ns for each in before]
        if as_left:
            return newest.mark
    return replace(newest.mark, standing=LedgerAge.RESTORED)


def write_mark(ledger: Path, mark: Mark) -> None:
    """Replace the mark atomically; durable on return. The site's lock is held."""
    files = _read_files(ledger)
    number, other_ns = (files[0].number, files[0].changed_ns) if files else (0, 0)
    turn = [path for path in mark_paths(ledger) if not files or path != files[0].path]
    for path in turn:  # both, where there was none
        number += 1
        _write_file(path, mark, number=number, other_ns=other_ns)
        other_ns = _changed_ns(path.stat())


def _read_files(ledger: Path) -> list[_File]:
    """Files of the mark that can be read, the newest first."""
    found = (_read_file(path, ledger) for path in mark_paths(ledger))
    return sorted((f for f in found if f is not None), key=lambda f: f.number, reverse=True)


def _read_file(path: Path, ledger: Path) -> _File | None:
    try:
        with path.open("rb") as file:
            changed_ns = _changed_ns(os.fstat(file.fileno()))
            document: dict[str, Any] = json.loads(file.read())
        releases = [(c["study"], c["study_digest"], c["release_id"]) for c in document["missing"]]
        mark = Mark(
            length=int(document["length"]),
            head=bytes.fromhex(document["head"]),
            missing=CuratorView(
                tuple(
                    ContributionRecord(study, digest, bytes.fromhex(i))
                    for study, digest, i in releases
                ),
                int(document["seen_length"]),
                bytes.fromhex(document["seen_head"]),
            ),
            standing=_standing_before(document, ledger)
            if document["version"] == 1
            else LedgerAge(document["standing"]),
        )
        number, other_ns = int(document.get("number", 0)), int(document.get("other_ns", 0))
        return _File(path, number, changed_ns, other_ns, mark)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror}") from error


def _standing_before(document: dict[str, Any], ledger: Path) -> LedgerAge:
    """LedgerAge by a mark of 0.1.0, which has the ledger's inode and change time.

    The time is 0 after a crash, which that version took for good; it then tells nothing.
    """
    witness = ledger if ledger.exists() else ledger.with_name("site.lock")
    if not witness.exists():
        return LedgerAge.UNCOMPARED
    status = witness.stat()
    same = (status.st_ino, _changed_ns(status)) == (document["inode"], document["changed_ns"])
    return LedgerAge.NEWEST if same else LedgerAge.UNCOMPARED


def _write_file(path: Path, mark: Mark, *, number: int, other_ns: int) -> None:
    view = mark.missing
    content = json.dumps(
        {
            "version": _VERSION,
            "number": number,
            "other_ns": other_ns,
            "standing": mark.standing,
            "length": mark.length,
            "head": mark.head.hex(),
            "missing": [
                {"study": c.study, "study_digest": c.study_digest, "release_id": c.release_id.hex()}
                for c in view.releases
            ],
            "seen_length": view.length,
            "seen_head": view.head.hex(),
        },
        indent=1,
    )
    try:
        write_file(path, content.encode())
        sync(path.parent)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}: free space or correct its permissions"
        ) from error


def _changed_ns(status: os.stat_result) -> int:
    """Time of the last change to a file's content or attributes."""
    return status.st_ctime_ns if HAS_MODES else max(status.st_ctime_ns, status.st_mtime_ns)


def not_borne_out(view: CuratorView, history: History) -> CuratorView:
    """The part of a curator's record that the ledger does not contain; empty if none."""
    missing = view.unknown_to(history)
    good = history.has_prefix(view.length, view.head)
    return CuratorView(missing) if good else CuratorView(missing, view.length, view.head)


def merge_view(mark: Mark | None, view: CuratorView, history: History) -> Mark:
    """Mark of a ledger after a comparison with a curator's record.

    A contribution that was missing stays missing, whichever curator answers now, until the ledger
    knows it; entries that the mark knows stay known; and a restored ledger stays restored.
    """
    before = CuratorView() if mark is None else mark.missing
    releases = dict.fromkeys((*before.releases, *view.releases))
    wrong = not_borne_out(replace(view, releases=tuple(releases)), history)
    if mark is not None and not history.has_prefix(mark.length, mark.head):
        return replace(mark, missing=wrong)
    restored = find_standing(mark, history) is LedgerAge.RESTORED
    standing = LedgerAge.RESTORED if restored else LedgerAge.NEWEST
    return Mark(history.length, history.head, wrong, standing)


def find_standing(mark: Mark | None, history: History) -> LedgerAge:
    """Return the age, as far as known, of a ledger that has all that the mark knows."""
    if mark is None:
        used = history.charges or any(each.bound for each in history.openers.values())
        return LedgerAge.RESTORED if used else LedgerAge.UNCOMPARED
    if mark.standing is LedgerAge.RESTORED and not history.length:
        return LedgerAge.UNCOMPARED
    return mark.standing


def require_known(mark: Mark | None, history: History) -> LedgerAge:
    """Raise `ChainError` if the site is locked; return the standing of its ledger otherwise."""
    if mark is not None:
        try:
            require_prefix(history, length=mark.length, head=mark.head)
        except ChainError as error:
            raise ChainError(
                f"this ledger is not the one this site used last: {error}. {WHAT_TO_DO}"
            ) from error
        require_consistent(mark.missing, history)
    standing = find_standing(mark, history)
    if standing is LedgerAge.RESTORED:
        raise ChainError(
            "this ledger was restored from a copy, or moved from another folder or disk: a charge "
            f"made after the copy would be missing from it. {LOCKED} If it is the newest copy, or "
            "there is none, run `dppca-owner ledger recover`, which asks you"
        )
    return standing


def require_consistent(view: CuratorView, history: History) -> None:
    """Raise `ChainError` unless the ledger contains all of a curator's record."""
    missing = view.unknown_to(history)
    if missing:
        names = [each.study for each in missing]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise ChainError(
            "the curator holds contributions of this site that this ledger does not contain, to: "
            f"{', '.join(names[:_SHOWN])}{more}. Either this ledger is an old copy or a new one, "
            f"or somebody else has used this site's key. {WHAT_TO_DO}"
        )
    try:
        require_prefix(history, length=view.length, head=view.head)
    except ChainError as error:
        raise ChainError(
            f"the curator has seen another ledger of this site: {error}. Either this ledger is an "
            f"old copy, or somebody else has used this site's key. {WHAT_TO_DO}"
        ) from error


LOCKED = "The site is locked: nothing was drawn, charged or sent."
WHAT_TO_DO = (
    f"{LOCKED} If you have the newest ledger.sqlite, "
    "put it back. If it is lost, run `dppca-owner ledger recover`, which charges again what the "
    "curator holds. If this site did not send it, ask the operator to revoke the certificate, run "
    "`dppca-owner renew`, then `dppca-owner ledger recover --disown STUDY`; the operator can run "
    "`dppca-curator owner settle`"
)
"""Ends the messages of a locked site whose ledger lacks something."""
