"""Columns whose names say that one person may have several rows, such as REDCap's events.

A name is all that is looked at: no row is read, so that a draft and a site ask the same question.
"""

import re
from collections.abc import Iterable
from typing import Final

_KINDS: Final = (
    "visit|encounter|episode|admission|hadm|stay|icustay|wave|timepoint|occasion|followup|repeat|"
    "session|event|examination|appointment"
)
_ALONE: Final = "visit|encounter|episode|admission|wave|timepoint|occasion|repeat"
_COUNTED: Final = (
    "id|ids|no|nr|num|number|name|label|code|key|date|day|dy|index|idx|seq|sequence|instance|"
    "instrument|occurrence|occurrenceid|startdate|starttime|start"
)
_REPEATING: Final = re.compile(f"redcap(repeat|event).*|({_ALONE})|({_KINDS})({_COUNTED})")


def find_repeating(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are of such a column, in their order; case and marks do not count."""
    return tuple(n for n in names if _REPEATING.fullmatch(re.sub(r"[\W_]+", "", n.casefold())))
