"""A value becomes the JSON that its reference describes."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.values import JsonBytes, to_document


@dataclass(frozen=True)
class Inner:
    when: datetime | None
    state: StudyState


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    named: dict[str, Inner]
    document: JsonBytes
    share: float
    n_rows: Annotated[int, "renamed"] = field(metadata={"key": "rows"})
    absent: Annotated[int | None, "null where there is none"] = None


def test_a_value_is_written_field_by_field() -> None:
    at = datetime(2026, 11, 24, 12, tzinfo=UTC)
    inner = Inner(at, StudyState.OPEN)
    value = Outer((inner, Inner(None, StudyState.CLOSED)), {"a": inner}, JsonBytes(b"[1]"), 0.5, 3)
    told = {"when": "2026-11-24T12:00:00+00:00", "state": "open"}
    document = {
        "inner": [told, {"when": None, "state": "closed"}],
        "named": {"a": told},
        "document": [1],
        "share": 0.5,
        "rows": 3,
        "absent": None,
    }
    assert to_document(value) == document
    assert to_document(replace(value, absent=0)) == {**document, "absent": 0}
