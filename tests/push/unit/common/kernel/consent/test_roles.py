import json
from datetime import date
from typing import Any

import pytest

from dppca.common.kernel.consent.roles import (
    FIRST,
    Roles,
    is_agreed,
    read_roles,
    require_review_day,
    require_successor,
)
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import SettingError
from tests.support.people import ANNA, BERT, CORA, DORA, Someone, roles_of, someone

TOKEN = someone(0, token=True)


def made(*people: Someone, before: Roles | None = None, **changes: Any) -> dict[str, Any]:
    version, previous = (1, FIRST) if before is None else (2, before.sha256)
    stated = roles_of(people or (ANNA, BERT, CORA))
    return {**stated, "form": 1, "version": version, "previous": previous, **changes}


def read(document: dict[str, Any]) -> Roles:
    return read_roles(canonical_json(document))


@pytest.mark.parametrize("needed", [0, -1, 1.5, "2", True, None, 4, 2.0])
def test_how_many_must_sign_is_a_whole_number_of_people(needed: object) -> None:
    with pytest.raises(SettingError, match="no roles"):
        read(made(needed=needed))


@pytest.mark.parametrize(
    "changes",
    [
        {"people": []},
        {"people": made(ANNA, BERT)["people"][:1]},
        {"people": made(ANNA, ANNA)["people"]},
        {"people": made(ANNA, TOKEN)["people"]},
        {"people": [{"keys": [BERT.key.line] * 2, "group": "g"}, *made(ANNA, CORA)["people"]]},
        {"people": [{"keys": [f"{BERT.key.line} x"], "group": "g"}, *made(ANNA, CORA)["people"]]},
        {"people": [{"keys": [], "group": "g"}, *made(ANNA, CORA)["people"]]},
        {"people": made(*map(someone, range(21)))["people"]},
        {"one_of_each": ["nobody"]},
        {"one_of_each": ["g1", "g1"]},
        {"version": 0},
        {"version": 2},
        {"version": True},
        {"form": 2},
        {"form": True},
        {"previous": "0" * 63},
        {"owner": "Hospital"},
        {"review_by": "2026-02-30"},
        {"review_by": "soon"},
        {"more": 1},
    ],
    ids=str,
)
def test_other_forms_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="no roles"):
        read(made(**changes))


@pytest.mark.parametrize("key", sorted(made()))
def test_no_field_has_a_default(key: str) -> None:
    document = made()
    del document[key]
    with pytest.raises(SettingError, match="no roles"):
        read(document)


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(made()).encode(),
        canonical_json(made()) + b" ",
        canonical_json(made()).replace(b'"form":1', b'"form":1,"form":1'),
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_roles_have_one_form(content: bytes) -> None:
    with pytest.raises(SettingError):
        read_roles(content)


def test_people_are_counted_by_points() -> None:
    roles = read(made(one_of_each=["g2"]))
    points = [each.key.point for each in (ANNA, BERT, CORA, DORA)]
    assert roles.signed_by(points[:1] * 3) == {0}
    assert not roles.is_enough(points[:2])
    assert roles.is_enough([points[0], points[2]])
    assert not roles.is_enough([points[2], points[3]])


def test_versions_follow_each_other_without_a_gap() -> None:
    first = read(made())
    after = made(before=first)
    require_successor(None, first)
    require_successor(first, read(after))
    for wrong in (made(), {**after, "version": 3}, {**after, "previous": "1" * 64}):
        with pytest.raises(SettingError, match="the next roles"):
            require_successor(first, read(wrong))
    with pytest.raises(SettingError, match="another site"):
        require_successor(first, read({**after, "owner": "clinic"}))


def test_every_new_key_proves_that_it_is_there() -> None:
    first = read(made())
    one, two, three, four = (each.key.point for each in (ANNA, BERT, CORA, DORA))
    after = read(made(ANNA, BERT, DORA, before=first))
    assert not is_agreed(None, first, [one, two])
    assert is_agreed(None, first, [one, two, three])
    assert not is_agreed(first, after, [one, two])
    assert not is_agreed(first, after, [one, four])
    assert is_agreed(first, after, [one, two, four])


def test_a_review_is_at_most_400_days_away() -> None:
    roles = read(made(review_by="2027-02-05"))
    require_review_day(roles, date(2026, 1, 1))
    assert roles.is_reviewed(date(2027, 2, 5))
    assert not roles.is_reviewed(date(2027, 2, 6))
    for today in (date(2025, 12, 31), date(2027, 2, 5)):
        with pytest.raises(SettingError, match="review_by"):
            require_review_day(roles, today)
