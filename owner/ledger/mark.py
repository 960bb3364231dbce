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

A change time also moves when a file's mode, times or links are changed, as backups do (``cp -al``,
``tar --atime-preserve``). So each mark holds which files itself, the other and the ledger are
(`dppca.owner.ledger.births`): while all three are the same files, written for these bytes, nothing
was put back. The ledger's file is the third because it is never replaced: where old marks come back
by the links of ``cp -al``, a ledger that comes with them is the newest, or another file.

``init`` makes ledger and marks; nothing else makes the marks of a site that has none, so a site
without them is locked, whatever its ledger says.

Not detected: a disk or machine that was set back as a whole, with its change times (a curator finds
what it holds and the ledger lacks); an original folder, moved aside or kept by hard links, that is
used again after its copy was recovered, as nothing in it changed; marks kept by hard links and put
back beside a ledger into whose file an older one was written. On Windows a file has no change time,
and the later of its creation and last writing stands in for it: files that a tool overwrote in
place, with their old times, are not detected either. Change times have the resolution of the file
system, mostly 1 to 10 ms.
"""

import json
import os
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from dppca.common.kernel.consent.roles import FIRST as NO_ROLES
from dppca.common.kernel.durable.files import HAS_MODES, open_new, replacing, sync
from dppca.common.kernel.errors import ChainError, LedgerError, LedgerVersionError
from dppca.owner.ledger.births import find_birth
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.tools import require_prefix

_VERSION = 2  # of a mark's form
_SLOTS = (".mark", ".mark2")
_SHOWN = 8  # studies in a message
_LOOKS = 3  # at both files, in case a writer is between them
_Birth = tuple[int, int] | None


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
    """A curator's record of this site.

    Contributions, the chain that it has seen, and the version of the newest roles under which
    people of this site signed (0: none).
    """

    releases: tuple[ContributionRecord, ...] = ()
    length: int = 0
    head: bytes = b""
    roles_version: int = 0

    def unknown_to(self, history: History) -> tuple[ContributionRecord, ...]:
        """Contributions that the ledger does not contain."""
        return tuple(r for r in self.releases if not history.knows(r.study_digest, r.release_id))


class LedgerAge(StrEnum):
    """Whether a ledger is the newest, as far as this site knows.

    ``NEWEST``: it has every charge of this site. ``UNCOMPARED``: this site is new; a curator is
    asked once before a charge. ``RESTORED``: its marks are not as this site left them, or gone; it
    is locked until the steward recovers it.
    """

    NEWEST = "newest"
    UNCOMPARED = "uncompared"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Mark:
    """Content of the mark.

    ``length`` and ``head`` are the chain's. ``missing`` is the part of a curator's record that the
    ledger does not contain. ``roles`` is the digest of the roles in force, zeros without.
    """

    length: int
    head: bytes
    missing: CuratorView = CuratorView()
    standing: LedgerAge = LedgerAge.NEWEST
    roles: str = NO_ROLES


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the mark; ``other_ns`` is the change time that it gives the file before it.

    ``births`` are those that it gives itself, the file before it, and the ledger.
    """

    path: Path
    number: int
    changed_ns: int
    birth: _Birth
    other_ns: int
    births: tuple[_Birth, ...]
    mark: Mark


def mark_paths(ledger: Path) -> tuple[Path, ...]:
    """Paths of the files of a ledger's mark."""
    return tuple(ledger.with_suffix(suffix) for suffix in _SLOTS)


def read_mark(ledger: Path) -> Mark | None:
    """Return a ledger's mark, or None if there is none or it is damaged.

    Raise `LedgerVersionError` if a newer version of the software wrote it.
    A reader without the site's lock may see two files of different moments: it looks again.
    """
    for _ in range(_LOOKS):
        files = _read_files(ledger)
        if not files:
            return None
        if _as_left(ledger, *files):
            return files[0].mark
    return replace(files[0].mark, standing=LedgerAge.RESTORED)


def _as_left(ledger: Path, newest: _File, *before: _File) -> bool:
    """Return True if the files of a mark are as this site wrote them."""
    if newest.number == 0 or [newest.other_ns] == [each.changed_ns for each in before]:
        return True
    births = (*(each.birth for each in (newest, *before)), find_birth(ledger))
    return None not in births and births == newest.births


def write_mark(ledger: Path, mark: Mark) -> None:
    """Replace the mark atomically; durable on return. The site's lock is held."""
    files = _read_files(ledger)
    other = files[0] if files else None
    turn = [path for path in mark_paths(ledger) if other is None or path != other.path]
    for path in turn:  # both, where there was none
        _write_file(path, mark, ledger=ledger, other=other)
        other = _read_file(path, ledger)


def _read_files(ledger: Path) -> list[_File]:
    """Files of the mark that can be read, the newest first."""
    found = (_read_file(path, ledger) for path in mark_paths(ledger))
    return sorted((f for f in found if f is not None), key=lambda f: f.number, reverse=True)


def _read_file(path: Path, ledger: Path) -> _File | None:
    try:
        with path.open("rb") as file:
            changed_ns = _changed_ns(os.fstat(file.fileno()))
            birth = find_birth(file.fileno())
            document: dict[str, Any] = json.loads(file.read())
        if int(document["version"]) > _VERSION:
            raise LedgerVersionError(
                f"{path.name} has version {document['version']}; this software reads versions up "
                f"to {_VERSION}: run the dppca-owner that wrote it. {LOCKED}"
            )
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
            roles=str(document.get("roles", NO_ROLES)),
        )
        number, other_ns = int(document.get("number", 0)), int(document.get("other_ns", 0))
        births = tuple(each and (each[0], each[1]) for each in document.get("births", ()))
        return _File(path, number, changed_ns, birth, other_ns, births, mark)
    except (FileNotFoundError, ValueError, TypeError, LookupError):
        return None
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror}") from error


def _standing_before(document: dict[str, Any], ledger: Path) -> LedgerAge:
    """LedgerAge by a mark of 0.1.0, which has the ledger's inode and change time.

    The time is 0 after a crash, which that version took for good; it then tells nothing. Nor does
    a mark without a ledger: it has those of ``site.lock``, which no charge changes.
    """
    if not ledger.exists():
        return LedgerAge.RESTORED
    status = ledger.stat()
    same = (status.st_ino, _changed_ns(status)) == (document["inode"], document["changed_ns"])
    return LedgerAge.NEWEST if same else LedgerAge.RESTORED


def _write_file(path: Path, mark: Mark, *, ledger: Path, other: _File | None) -> None:
    try:
        with replacing(path, durable=True) as draft, open_new(draft) as file:
            before = None if other is None else other.birth
            births = (find_birth(file.fileno()), before, find_birth(ledger))
            file.write(_content(mark, other, births))
        sync(path.parent)
    except OSError as error:
        raise LedgerError(
            f"cannot write {path}: {error.strerror}: free space or make its disk writable"
        ) from error


def _content(mark: Mark, other: _File | None, births: tuple[_Birth, ...]) -> bytes:
    view = mark.missing
    content = json.dumps(
        {
            "version": _VERSION,
            "number": 1 if other is None else other.number + 1,
            "other_ns": 0 if other is None else other.changed_ns,
            "births": births,
            "standing": mark.standing,
            "length": mark.length,
            "head": mark.head.hex(),
            "missing": [
                {"study": c.study, "study_digest": c.study_digest, "release_id": c.release_id.hex()}
                for c in view.releases
            ],
            "seen_length": view.length,
            "seen_head": view.head.hex(),
            **({} if mark.roles == NO_ROLES else {"roles": mark.roles}),
        },
        indent=1,
    )
    return content.encode()


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
    restored = find_ledger_age(mark) is LedgerAge.RESTORED
    standing = LedgerAge.RESTORED if restored else LedgerAge.NEWEST
    return Mark(history.length, history.head, wrong, standing, history.approvals.roles_sha256)


def find_ledger_age(mark: Mark | None) -> LedgerAge:
    """Return the age, as far as known, of a ledger that has all that the mark knows."""
    return LedgerAge.RESTORED if mark is None else mark.standing


def require_known(mark: Mark | None, history: History) -> LedgerAge:
    """Raise `ChainError` if the site is locked; return the standing of its ledger otherwise."""
    doubt = find_doubt(mark, history)
    if doubt is not None:
        raise ChainError(doubt)
    return find_ledger_age(mark)


def find_doubt(mark: Mark | None, history: History) -> str | None:
    """Return why a site is locked whose ledger lacks nothing that is known; None if it is not.

    Raise `ChainError` if the ledger lacks what the mark knows.
    """
    if mark is not None:
        try:
            require_prefix(history, length=mark.length, head=mark.head)
        except ChainError as error:
            raise ChainError(
                f"this ledger is not the one this site used last: {error}. {WHAT_TO_DO}"
            ) from error
        require_consistent(mark.missing, history)
    return _RESTORED if find_ledger_age(mark) is LedgerAge.RESTORED else None


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
_RESTORED = (
    "this ledger was restored from a copy, was moved from another folder or disk, or has lost "
    "ledger.mark or ledger.mark2: a charge could be missing from it. (A site of version 0.2.0 or "
    f"older that never charged has no such files yet.) {LOCKED} If it is the newest copy, or there "
    "is none, run `dppca-owner ledger recover`, which asks you"
)
