"""Detection of an outdated ledger.

A ledger cannot know that it is old. Two witnesses can:

* *This site.* ``ledger.mark`` holds the chain's length and head at the end of the last command, and
  the inode and change time of ``ledger.sqlite``. No tool can give a restored or copied file that
  change time, so a mismatch means that the file was restored, copied or replaced. Such a ledger, or
  one without a mark, may still be right; it is compared with a curator once before it is charged.
  A ledger that lacks entries which the mark knows is locked.
* *A curator.* It lists this site's releases and the chain it has seen (`CuratorView`).
  If this ledger lacks any of these, the mark keeps them and locks the ledger, for every kind of
  charge and across commands, until the newest copy is back or the steward has recovered them
  (`dppca.owner.client.recovery`).

Not detected: a whole machine that was reset to a snapshot, with its change times (a curator detects
it at the next contribution); a charge that no curator has seen and whose mark is lost (a model,
if the whole folder was lost after it). On Windows a file has no change time, and the later of its
creation and last writing stands in for it: files that a tool overwrote in place, with their old
times, are not detected either.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dppca.common.errors import ChainError, LedgerError
from dppca.common.shell.files import HAS_MODES, write_file
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.tools import require_prefix

LOCK_FILE = "site.lock"
_VERSION = 1
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ListedContribution:
    """One contribution of this site in a curator's record.

    ``release_id`` is empty if the curator's version does not report it.
    """

    study: str
    study_digest: str
    release_id: bytes


@dataclass(frozen=True, slots=True)
class CuratorView:
    """A curator's record of this site: contributions, and the chain it has seen (0: none)."""

    releases: tuple[ListedContribution, ...] = ()
    length: int = 0
    head: bytes = b""

    def unknown_to(self, history: History) -> tuple[ListedContribution, ...]:
        """Contributions that the ledger does not contain."""
        return tuple(r for r in self.releases if not history.knows(r.study_digest, r.release_id))


@dataclass(frozen=True, slots=True)
class Mark:
    """Content of the mark.

    ``length`` and ``head`` are the chain's; ``inode`` and ``changed_ns`` those of ``ledger.sqlite``
    (of ``site.lock`` while there is no ledger): the time is 0 while a command is at work, and stays
    0 after a crash. ``missing`` is the part of a curator's record that the ledger does not contain.
    """

    length: int
    head: bytes
    inode: int
    changed_ns: int
    missing: CuratorView = CuratorView()

    def is_of(self, ledger: Path) -> bool:
        """Return True if inode and change time match; after a crash only the inode is compared."""
        witness = _witness(ledger)
        if not witness.exists():
            return False
        status = witness.stat()
        return status.st_ino == self.inode and self.changed_ns in (0, _changed_ns(status))


def mark_path(ledger: Path) -> Path:
    """Path of a ledger's mark."""
    return ledger.with_suffix(".mark")


def read_mark(ledger: Path) -> Mark | None:
    """Return a ledger's mark, or None if it is missing or damaged; the ledger is then compared."""
    try:
        document: dict[str, Any] = json.loads(mark_path(ledger).read_bytes())
        releases = [(c["study"], c["study_digest"], c["release_id"]) for c in document["missing"]]
        return Mark(
            length=int(document["length"]),
            head=bytes.fromhex(document["head"]),
            inode=int(document["inode"]),
            changed_ns=int(document["changed_ns"]),
            missing=CuratorView(
                tuple(
                    ListedContribution(study, digest, bytes.fromhex(i))
                    for study, digest, i in releases
                ),
                int(document["seen_length"]),
                bytes.fromhex(document["seen_head"]),
            ),
        )
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    except OSError as error:
        raise LedgerError(f"cannot read {mark_path(ledger)}: {error.strerror}") from error


def write_mark(ledger: Path, mark: Mark) -> None:
    """Replace the mark atomically; durable on return."""
    path = mark_path(ledger)
    view = mark.missing
    content = json.dumps(
        {
            "version": _VERSION,
            "length": mark.length,
            "head": mark.head.hex(),
            "inode": mark.inode,
            "changed_ns": mark.changed_ns,
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
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}: free space or correct its permissions"
        ) from error


def mark_in_use(mark: Mark, ledger: Path) -> Mark:
    """Mark of a ledger while a command writes it."""
    return replace(mark, inode=_witness(ledger).stat().st_ino, changed_ns=0)


def mark_closed(mark: Mark, ledger: Path) -> Mark:
    """Mark of a ledger that is closed, or of a locked site that has none."""
    status = _witness(ledger).stat()
    return replace(mark, inode=status.st_ino, changed_ns=_changed_ns(status))


def _changed_ns(status: os.stat_result) -> int:
    """Time of the last change to a file's content or attributes."""
    return status.st_ctime_ns if HAS_MODES else max(status.st_ctime_ns, status.st_mtime_ns)


def _witness(ledger: Path) -> Path:
    return ledger if ledger.exists() else ledger.with_name(LOCK_FILE)


def not_borne_out(view: CuratorView, history: History) -> CuratorView:
    """The part of a curator's record that the ledger does not contain; empty if none."""
    missing = view.unknown_to(history)
    good = history.has_prefix(view.length, view.head)
    return CuratorView(missing) if good else CuratorView(missing, view.length, view.head)


def merge_view(mark: Mark | None, view: CuratorView, history: History) -> Mark:
    """Mark of a ledger after a comparison with a curator's record.

    A contribution that was missing stays missing, whichever curator answers now, until the ledger
    knows it; entries that the mark knows stay known.
    """
    before = CuratorView() if mark is None else mark.missing
    releases = dict.fromkeys((*before.releases, *view.releases))
    wrong = not_borne_out(replace(view, releases=tuple(releases)), history)
    if mark is not None and not history.has_prefix(mark.length, mark.head):
        return replace(mark, missing=wrong)
    return Mark(history.length, history.head, 0, 0, wrong)


def require_known(mark: Mark, history: History) -> None:
    """Raise `ChainError` unless the ledger has all that this site's mark knows."""
    try:
        require_prefix(history, length=mark.length, head=mark.head)
    except ChainError as error:
        raise ChainError(
            f"this ledger is not the one this site used last: {error}. {WHAT_TO_DO}"
        ) from error
    require_consistent(mark.missing, history)


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


WHAT_TO_DO = (
    "The site is locked: nothing was drawn, charged or sent. If you have the newest ledger.sqlite, "
    "put it back. If it is lost, run `dppca-owner ledger recover`, which charges again what the "
    "curator holds. If this site did not send it, ask the operator to revoke the certificate, run "
    "`dppca-owner renew`, then `dppca-owner ledger recover --disown STUDY`; the operator can run "
    "`dppca-curator owner settle`"
)
"""Ends every message of a locked site."""
