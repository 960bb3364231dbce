"""Where two documents of studies differ: the places, never what stands there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dppca.common.study import Study

_SHOWN = 8


def differences(ours: Study, theirs: Study) -> str:
    """Names of the fields that differ, the first few of them; empty where the documents are one."""
    places = list(_differences(ours.model_dump(by_alias=True), theirs.model_dump(by_alias=True)))
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more


def _differences(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Places where two documents differ; attributes go by their name."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            yield from _differences(ours.get(key), theirs.get(key), f"{place}.{key}".lstrip("."))
    elif place == "schema.attributes":
        yield from _attribute_differences(ours, theirs)
    elif ours != theirs:
        yield place


def _attribute_differences(ours: Any, theirs: Any) -> Iterator[str]:
    mine, other = ({each["name"]: each for each in side} for side in (ours, theirs))
    for name in sorted({*mine, *other}):
        if name not in mine or name not in other:
            yield f"attribute {name} (only one side has it)"
        elif mine[name] != other[name]:
            yield f"attribute {name}"
    if list(mine) != list(other) and set(mine) == set(other):
        yield "the order of the attributes"
