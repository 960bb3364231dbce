"""Where a command may write what somebody asked for: one law, decided before any work.

- A *file* is new. One that is there is replaced only with ``--replace``, and never if the same
  command reads it, if it is no regular file, or if a party keeps it.
- A *folder* is new, empty, or marked as an earlier output by the file `MARKER`, which lists every
  file that was written there with its SHA-256. What is not listed is somebody's own, and so is a
  listed file that was changed since: a command that would write it is refused.
- A party's folder, of a site, a curator, an authority or an operator, is never taken.

`OutputOption` decides while the command line is read; a contract test finds every option that
names a place and is none. `claiming` holds a folder while a command writes there: another command
is refused meanwhile. A process that is killed leaves the names that it was going to write marked as
its own.

Nothing holds the name of a *file* between the decision and the writing, but a file that was to be
new is written only if it still is (`promise_new`).

Limits: a marked folder that was changed by a process of another machine needs working locks (a
local disk, NFS 4).
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any, Final, Protocol

import click

from dppca.common.kernel.durable.files import SHARED, digest_file, promise_new
from dppca.common.kernel.errors import SettingError

MARKER: Final = ".dppca-output.json"
PARTY_MARKS: Final = (
    "key.pem",
    "ca-key.pem",
    "site.yaml",
    "policy.yaml",
    "ledger.sqlite",
    "ledger.mark",
    "curator.sqlite",
)
"""Files that make a folder a party's."""
PARTY_FILES: Final = (
    *PARTY_MARKS,
    *("ca.pem", "certificate.pem", "request.pem", "peers.yaml", "site.lock", "lock", "crl.pem"),
    *("ledger.*", "curator.sqlite*", "roles.json", "fingerprint.key", "looks.jsonl"),
)
"""Patterns of the files that a party's folder keeps."""
PARTY_FOLDERS: Final = ("studies", "openers", "next", "previous", "cluster", "blobs", "issued")
"""Folders that a party's folder keeps."""
_ANOTHER = "name another"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


class Law(Protocol):
    """What a place must be."""

    def require(self, path: Path, option: str, *, replace: bool, inputs: Iterable[Path]) -> None:
        """Raise `SettingError` if nothing may be written there."""


@dataclass(frozen=True, slots=True)
class FileLaw:
    """Law of a file.

    Attributes
    ----------
    replaceable
        True if the command has ``--replace``.
    also
        Other files that are written with it, by its path.
    own
        Returns True for a file that is the command's own earlier output, which it renews.
    allowed
        Names among `PARTY_FILES` that it is the command's work to write.
    """

    replaceable: bool = False
    also: Callable[[Path], Iterable[Path]] = lambda _: ()
    own: Callable[[Path], bool] = lambda _: False
    allowed: tuple[str, ...] = ()

    def require(self, path: Path, option: str, *, replace: bool, inputs: Iterable[Path]) -> None:
        """Raise `SettingError` if the file, or one that comes with it, may not be written."""
        read = [each for each in inputs if each.exists()]
        for each in (path, *self.also(path)):
            there = each.exists() or each.is_symlink()
            if there and any(each.exists() and each.samefile(other) for other in read):
                raise SettingError(f"{option} {each}: the command reads this file: {_ANOTHER}")
            if each.name not in self.allowed:
                _require_not_kept(each, option, there=there)
            promise_new(each, new=not there)
            if not there or self.own(each):
                continue
            cure = f"give another {option}"
            if not (replace and self.replaceable):
                say = "say --replace" if option.startswith("--") else "say replace=True"
                cure += f", or {say}" if self.replaceable else ""
                raise SettingError(f"cannot write {each}: it exists and is not overwritten: {cure}")
            if not each.is_file():
                raise SettingError(f"cannot write {each}: it is no regular file: {cure}")


@dataclass(frozen=True, slots=True)
class FolderLaw:
    """Law of a folder; with ``fresh`` an earlier output is no place either."""

    fresh: bool = False

    def require(
        self,
        path: Path,
        option: str,
        *,
        replace: bool,  # noqa: ARG002 - it replaces files that are listed, see `claiming`
        inputs: Iterable[Path],  # noqa: ARG002 - a folder with an input has a file that is not listed
    ) -> None:
        """Raise `SettingError` if the folder may not be taken."""
        require_folder(path, option, fresh=self.fresh)


def _envelope(path: Path) -> list[Path]:
    """Return a file's envelope, unless a killed command left it alone."""
    from dppca.common.kernel.attestation.envelopes import envelope_path

    envelope = envelope_path(path)
    if path.exists() or not envelope.is_file():
        return [envelope]
    return [] if b'"payloadType"' in envelope.read_bytes() else [envelope]


SIGNED: Final = FileLaw(replaceable=True, also=_envelope)
"""Law of a file with an envelope beside it."""


class OutputOption(click.Option):
    """An option that names a file or a folder to write; its law is decided while it is read."""

    def __init__(self, *names: Any, law: Law, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.law = law

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Return the value; `SettingError` if nothing may be written there."""
        value, rest = super().handle_parse_result(ctx, opts, args)
        # A value that was not given is no path; click has several objects for it.
        paths = [each for each in (value if self.multiple else (value,)) if isinstance(each, Path)]
        if paths and not ctx.resilient_parsing:
            replace = opts.get("replace") is True
            inputs = [*_inputs(ctx.command, opts)]
            for path in paths:
                self.law.require(path, self.opts[0], replace=replace, inputs=inputs)
        return value, rest


def output_file(
    *names: str,
    help: str,  # noqa: A002 - click's name
    required: bool = False,
    multiple: bool = False,
    law: FileLaw,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option that names a file to write, and ``--replace`` if its law has it."""
    option = click.option(
        *names,
        type=_FILE,
        cls=OutputOption,
        law=law,
        help=help,
        required=required,
        multiple=multiple,
    )
    if not law.replaceable:
        return option
    replace = click.option(
        "--replace", is_flag=True, expose_value=False, help="Write over a file that is there."
    )
    return lambda command: option(replace(command))


def output_folder(
    *names: str,
    help: str,  # noqa: A002 - click's name
    fresh: bool = False,
    **attributes: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option that names a folder to write."""
    law = FolderLaw(fresh)
    return click.option(*names, type=_FOLDER, cls=OutputOption, law=law, help=help, **attributes)


def _inputs(command: click.Command, given: Mapping[str, Any]) -> Iterator[Path]:
    """Files that a command line names to read."""
    for each in command.params:
        if isinstance(each.type, click.Path) and not isinstance(each, OutputOption):
            value = given.get(each.name or "")
            many = value if isinstance(value, list | tuple) else (value,)
            yield from (Path(one) for one in many if isinstance(one, str | Path))


def require_folder(path: Path, option: str, *, fresh: bool = False) -> None:
    """Raise `SettingError` unless a folder is new, empty or, without ``fresh``, marked."""
    place = path.resolve()
    owner = next((each for each in (place, *place.parents) if _is_party(each)), None)
    if owner is not None and (owner == place or place.relative_to(owner).parts[0] in PARTY_FOLDERS):
        raise SettingError(
            f"{path} is a folder of a site, a curator or an authority, which holds keys or "
            f"records: {_ANOTHER} {option}"
        )
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise SettingError(f"{path} is no folder: {_ANOTHER} {option}")
    there = {each.name for each in _entries(path)}
    if there and (fresh or _listed(path / MARKER) is None) and there != {MARKER}:
        earlier = "" if fresh else ", and no earlier output of this software"
        raise SettingError(f"{path} is not empty{earlier}: name a new folder with {option}")


def require_apart(folder: Path, option: str, *, marks: Collection[str]) -> None:
    """Raise `SettingError` if a folder keeps a file of another kind of party, named in ``marks``.

    An authority's key beside a site's or a curator's would lie where its machine can be reached.
    """
    if there := [each for each in marks if (folder / each).exists()]:
        raise SettingError(
            f"{folder} is the folder of another party ({there[0]}), whose keys stay apart: "
            f"{_ANOTHER} {option}"
        )


def _is_party(folder: Path) -> bool:
    return any((folder / name).exists() for name in PARTY_MARKS)


def _require_not_kept(path: Path, option: str, *, there: bool) -> None:
    """Raise `SettingError` if a party's folder keeps a file of that name."""
    place = path.parent.resolve() / path.name
    for owner in place.parents:
        if not _is_party(owner):
            continue
        first, *more = place.relative_to(owner).parts
        kept = first in PARTY_FOLDERS and (there or first != "studies")
        if kept if more else any(fnmatch(first, each) for each in PARTY_FILES):
            raise SettingError(
                f"{path} is a place where a site, a curator or an authority keeps its own files: "
                f"{_ANOTHER} {option}"
            )


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise SettingError(f"cannot read {folder}: {error.strerror}") from error


@contextmanager
def claiming(
    folder: Path, names: Collection[str], *, option: str = "--output", ours: bool = False
) -> Iterator[Path]:
    """Hold a folder while the block writes files of these names there; yield it.

    Parameters
    ----------
    names
        Paths below the folder, with ``/``, of all files that the block may write.
    option
        The option that named the folder, for messages.
    ours
        True if the folder was made by this software, so that it needs no mark.

    Raises
    ------
    SettingError
        The folder may not be taken, another command writes there, or a file of one of the names is
        somebody's own.
    """
    if not ours:
        require_folder(folder, option)
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        marker = os.open(folder / MARKER, os.O_RDWR | os.O_CREAT | _NO_LINK, SHARED)
    except OSError as error:
        raise SettingError(
            f"nothing can be written in {folder} ({error.strerror}): {_ANOTHER} {option}"
        ) from error
    with os.fdopen(marker, "r+b") as file:
        _require_alone(file.fileno(), folder)
        before = _parse(file.read()) or {}
        if not before and not ours and {each.name for each in _entries(folder)} != {MARKER}:
            require_folder(folder, option, fresh=True)
        for name in names:
            _require_ours(folder, name, before, option)
        _write(file, {**before, **dict.fromkeys(names)}, folder)
        try:
            yield folder
        finally:
            found = {name: _digest(folder / name) for name in names}
            after = {**before, **found}
            kept = {name: digest for name, digest in after.items() if digest is not None}
            _write(file, kept, folder)
            if not kept and not ours:
                with suppress(OSError):
                    (folder / MARKER).unlink()
                    if new:
                        folder.rmdir()


def _require_alone(descriptor: int, folder: Path) -> None:
    from filelock import lock_descriptor

    try:
        alone = lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        raise SettingError(f"cannot lock {folder}: {error.strerror}") from error
    if not alone:
        raise SettingError(f"another command writes in {folder}: wait until it has ended")


def _require_ours(folder: Path, name: str, listed: Mapping[str, str | None], option: str) -> None:
    path = folder / name
    if not path.exists() and not path.is_symlink():
        return
    regular = path.is_file() and not path.is_symlink()
    if name in listed and regular and listed[name] in (None, _digest(path)):
        return
    raise SettingError(
        f"{path} is not as this software left it: move it away, or {_ANOTHER} {option}"
    )


def _listed(marker: Path) -> Mapping[str, str | None] | None:
    """Files that a folder's mark lists; None without a mark."""
    try:
        return _parse(marker.read_bytes())
    except OSError:
        return None


def _parse(content: bytes) -> Mapping[str, str | None] | None:
    try:
        files = json.loads(content)["files"]
        return {str(name): digest for name, digest in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(file: IO[bytes], files: Mapping[str, str | None], folder: Path) -> None:
    content = json.dumps({"made_by": "dppca", "files": files}, indent=1).encode()
    try:
        file.seek(0)
        file.write(content)
        file.truncate()
        file.flush()
    except OSError as error:
        raise SettingError(f"cannot write {folder / MARKER}: {error.strerror}") from error


def _digest(path: Path) -> str | None:
    try:
        return digest_file(path)
    except OSError:
        return None
