"""A study's state, and the parties that it waits for, as text for people; JSON has the names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study

_STATES = {StudyState.DECOMPOSED: "result ready"}


def show_state(state: StudyState) -> str:
    """Return a state of a study as text for people."""
    return _STATES.get(state, state.value)


def waits_for_ever(name: str) -> str:
    """Say what follows from a study's having no deadline."""
    return (
        "it waits until every owner has come, or its operator ends it: "
        f'`dppca-curator study abort {name} --reason "..."`'
    )


def name_list(names: Sequence[str], me: str = "") -> str:
    """Return names as in a sentence, such as "you, north and valley"; ``me`` is first, as "you"."""
    ordered = [*(["you"] if me in names else []), *(name for name in names if name != me)]
    return " and ".join(filter(None, (", ".join(ordered[:-1]), *ordered[-1:])))


def other_owners(count: int) -> str:
    """Return a number of owners in words, such as "1 other owner" and "2 other owners"."""
    return many(count, "other owners")


def released_number(study: Study, number: int) -> str:
    """Return the number of a result in words, such as "40 people" and "about 7131 rows"."""
    about = "about " if study.has_secret_rows else ""
    return f"{about}{many(number, study.unit.counts)}"


def exact_time(time: str | datetime) -> str:
    """Return a time to the second, ``2026-11-22 19:30:05 UTC``.

    ``time`` is aware or, as text, in ISO 8601 form.
    """
    return f"{as_time(time).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def as_time(time: str | datetime) -> datetime:
    """Return a time that may be text in ISO 8601 form."""
    return datetime.fromisoformat(time) if isinstance(time, str) else time
