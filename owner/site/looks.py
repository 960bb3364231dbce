"""``looks.jsonl``: a line for each export of a site's record (`dppca.common.verification.audit`).

The chain of lines shows who looked and when; who has the site's account can write another one, and
the next bundle shows it to whoever kept an earlier one.
"""

from __future__ import annotations

import getpass
import json
import os
from datetime import datetime
from typing import TYPE_CHECKING

from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.files import write_file
from dppca.common.kernel.errors import DppcaError, SettingError
from dppca.common.verification.audit.form import MOST_LOOKS, Look, PastLook
from dppca.common.verification.audit.looks import FIRST, require_looks

if TYPE_CHECKING:
    from dppca.owner.ledger.chain import History
    from dppca.owner.site.config import Site

_MAX_BYTES = MOST_LOOKS * 1_000  # a line has 500 bytes, with two names of any account
_MOST_NAME = 256  # characters of an account; those of systems have 32 or 64


def read_looks(site: Site) -> list[PastLook]:
    """Read all lines; raise `SettingError` if one is not what this software wrote."""
    path = site.looks
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if len(content) > _MAX_BYTES:
            raise SettingError("too long")
        looks = [PastLook.model_validate(json.loads(line)) for line in content.splitlines()]
        require_looks(looks)
        same = content == _lines(looks)
    except (DppcaError, ValueError, TypeError, RecursionError) as error:
        raise _damaged(site) from error
    if not same:
        raise _damaged(site)
    return looks


def next_look(looks: list[PastLook], history: History, now: datetime) -> Look:
    """Return the export that follows; raise `SettingError` after `MOST_LOOKS`."""
    if len(looks) >= MOST_LOOKS:
        raise SettingError(f"a site has at most {MOST_LOOKS} exports")
    return Look(
        number=len(looks) + 1,
        time=now.isoformat(timespec="seconds"),
        account=_account(),
        caller=os.environ.get("SUDO_USER", "")[:_MOST_NAME],
        entries=history.length,
        head=history.head.hex(),
        previous=looks[-1].sha256 if looks else FIRST,
    )


def keep_looks(site: Site, looks: list[PastLook]) -> None:
    """Write all lines, durably; raise `SettingError` if that is not possible."""
    try:
        write_file(site.looks, _lines(looks))
    except OSError as error:
        raise SettingError(f"{site.looks} cannot be written: {error.strerror}") from error


def _lines(looks: list[PastLook]) -> bytes:
    return b"".join(canonical_json(each.model_dump()) + b"\n" for each in looks)


def _account() -> str:
    try:
        return getpass.getuser()[:_MOST_NAME]
    except (OSError, KeyError):  # a number without a name, as in a container
        return "unknown"


def _damaged(site: Site) -> SettingError:
    return SettingError(
        f"{site.looks} was changed or is damaged: put back a copy of it. If there is none, move it "
        "away: an auditor who kept a bundle will see that exports are counted from 1 again"
    )
