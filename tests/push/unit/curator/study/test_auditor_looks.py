"""The chain of what auditors looked at: what is changed or taken away shows."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dppca.curator.store import SqliteStore
from dppca.curator.study import auditor_looks
from dppca.curator.study.auditor_looks import (
    FIRST,
    AuditorLook,
    AuditorLooks,
    find_break,
    following_look,
)

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def chain(number: int) -> list[AuditorLook]:
    looks: list[AuditorLook] = []
    for hour in range(number):
        made = following_look(looks, "aud", "ShowStudy", f"s{hour}", now=NOON + hour * HOUR)
        assert made is not None
        looks.append(made)
    return looks


def test_the_same_look_counts_once_an_hour() -> None:
    looks = chain(1)
    soon = NOON + timedelta(minutes=59)
    assert following_look(looks, "aud", "ShowStudy", "s0", now=soon) is None
    for auditor, method, study in (
        ("eve", "ShowStudy", "s0"),
        ("aud", "GetStudy", "s0"),
        ("aud", "ShowStudy", "s1"),
    ):
        made = following_look(looks, auditor, method, study, now=soon)
        assert made is not None
        assert (made.number, made.previous, made.study) == (2, looks[0].digest, study)
    later = following_look(looks, "aud", "ShowStudy", "s0", now=NOON + HOUR)
    assert later is not None


CHANGES: list[tuple[Callable[[list[AuditorLook]], list[AuditorLook]], int]] = [
    (lambda looks: looks, 0),
    (lambda looks: looks[3:], 0),  # the oldest go, where there is no more room
    (lambda looks: looks[:-1], 0),  # only its head, noted before, shows that
    (lambda looks: [*looks[:2], *looks[3:]], 4),
    (lambda looks: [looks[0], looks[2], looks[1], *looks[3:]], 3),
    (lambda looks: [*looks[:2], replace(looks[2], auditor="eve"), *looks[3:]], 4),
    (lambda looks: [replace(looks[0], study="x"), *looks[1:]], 2),
    (lambda looks: [replace(looks[0], previous=b"p" * 32), *looks[1:]], 1),
    (lambda looks: [*looks, replace(looks[-1], number=7)], 7),
]


@pytest.mark.parametrize(("change", "broken"), CHANGES)
def test_the_first_line_that_does_not_follow_is_found(
    change: Callable[[list[AuditorLook]], list[AuditorLook]], broken: int
) -> None:
    assert find_break(change(chain(5))) == broken


@pytest.mark.parametrize(("change", "broken"), CHANGES)
def test_a_break_is_known_until_its_line_has_gone(
    change: Callable[[list[AuditorLook]], list[AuditorLook]],
    broken: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auditor_looks, "MOST_LOOKS", 6)
    looks = AuditorLooks.of(change(chain(5)))
    assert looks.broken == broken
    for hour in range(9, 18):
        made = following_look(looks.lines, "aud", "ListStudies", "", now=NOON + hour * HOUR)
        assert made is not None
        looks = looks.followed_by(made)
        assert looks.broken == find_break(looks.lines)
    assert looks.broken == 0


def test_a_store_keeps_the_newest_and_their_numbers_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor_looks, "MOST_LOOKS", 3)
    store, looks = SqliteStore(tmp_path), chain(5)
    assert (looks[0].previous, store.looks.lines) == (FIRST, ())
    for each in looks:
        store.keep_look(each)
    assert store.looks.lines == tuple(looks[2:])
    store.close()
    again = SqliteStore(tmp_path)
    assert again.looks.lines == tuple(looks[2:])
    again.close()
