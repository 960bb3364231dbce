"""How a dictionary says that text files are written, in the words of a site's policy.

A site's files are written in one way. What columns say differently becomes a note.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

_USUAL = {"delimiter": ",", "decimal": ".", "thousands": "", "dates": "YYYY-MM-DD"}
_WORDS = {"delimiter": ",;\t|", "decimal": ".,", "thousands": ".,' "}
_SAME = {"\u00a0": " ", "\u202f": " ", "\u2019": "'"}
_DATES = {"%Y": "YYYY", "%m": "MM", "%-m": "M", "%d": "DD", "%-d": "D", "%b": "MON"}
_DAY = re.compile(rf"({'|'.join(_DATES)})([./ -]?)" * 3)
_TIME = re.compile(r"[T ]?%[HI].*", re.DOTALL)
_PLAIN = {"header": True, "headerRows": [1], "quoteChar": '"', "doubleQuote": True}
_UNSAID = ("csv", "csvddfVersion", "$schema", "lineTerminator", "name", "type")
_NUMBERS, _DAYS = ("integer", "number"), ("date", "datetime")


def date_form(pattern: str) -> str | None:
    """Return the form of a date, such as ``DD.MM.YYYY``, of a pattern of strptime.

    None if a policy has no words for it; a time may follow.
    """
    found = _DAY.fullmatch(_TIME.sub("", pattern.removeprefix("fmt:")))
    if found is None:
        return None
    parts = [_DATES.get(part, part) for part in found.groups()]
    is_whole = {part[0] for part in parts[::2]} == {*"YMD"} and not parts[-1]
    return "".join(parts) if is_whole else None


def written_fields(
    fields: Sequence[Mapping[str, Any]], resource: Mapping[str, Any]
) -> tuple[dict[str, str], list[str]]:
    """Return what a policy's ``format`` has to say of a Frictionless resource's fields, and notes.

    A resource that is TSV has tabs, unless its dialect says other. Dialects of frictionless 5 name
    their format first, as ``{"csv": {"delimiter": ";"}}``.
    """
    ways: dict[str, set[str]] = {key: set() for key in _USUAL}
    notes: list[str] = []
    dialect = resource.get("dialect")
    plain = dialect if isinstance(dialect, dict) else {}
    plain = {**plain, **(plain["csv"] if isinstance(plain.get("csv"), dict) else {})}
    for key, value in plain.items():
        if key == "delimiter" and isinstance(value, str):
            ways["delimiter"].add(value)
        elif key not in _UNSAID and _PLAIN.get(key, ...) != value:
            notes.append(f"the dialect: {key} is left aside; see how rows of CSV are read")
    path = _text(resource.get("path")).lower().removesuffix(".gz")
    if not ways["delimiter"] and "tsv" in (resource.get("format"), path.rpartition(".")[2]):
        ways["delimiter"].add("\t")
    for field in fields:
        for key, way in _ways(field):
            if way is None:
                notes.append(
                    f"{field['name']}: its form of dates has no word in a policy; export dates as "
                    "2020-01-31"
                )
            else:
                ways[key].add(way)
        if field.get("bareNumber") is False:
            notes.append(
                f"{field['name']}: bareNumber is false; export plain numbers, without signs such "
                "as % beside them"
            )
    for key, words in _WORDS.items():
        other = {each for each in ways[key] if len(each) != 1 or each not in words}
        notes += [f"{key} is {each!r}; a policy has no word for it" for each in sorted(other)]
        ways[key] -= other
    if ways["decimal"] == ways["thousands"] != set():
        notes.append("decimalChar and groupChar are one character; export numbers without groups")
        ways["thousands"] = set()
    for key, found in ways.items():
        if len(found) > 1:
            notes.append(
                f"{key} differs between columns; a site's files are written in one way, which its "
                "policy says"
            )
    written = {key: next(iter(found)) for key, found in ways.items() if len(found) == 1}
    return {key: way for key, way in written.items() if way != _USUAL[key]}, notes


def usual_text(field: Mapping[str, Any], value: object) -> object:
    """Return a bound in the usual form that is written as a field's cells are: ``1.000,5``.

    Whatever is not written so stays as it is.
    """
    if not isinstance(value, str):
        return value
    if field.get("type") in _NUMBERS:
        bare = value.replace(_text(field.get("groupChar")), "")
        return bare.replace(_text(field.get("decimalChar")) or ".", ".")
    said = _text(field.get("format")).removeprefix("fmt:")
    with suppress(ValueError, re.error):
        return value and datetime.strptime(value, said).date().isoformat()  # noqa: DTZ007 - a day alone
    return value


def _ways(field: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    kind = field.get("type")
    if kind == "number":
        yield "decimal", _text(field.get("decimalChar")) or "."
    if kind in _NUMBERS and _text(field.get("groupChar")):
        yield "thousands", _SAME.get(field["groupChar"], field["groupChar"])
    if kind in _DAYS:
        said = _text(field.get("format")) or "default"
        yield "dates", _USUAL["dates"] if said == "default" else date_form(said)


def left_aside(said: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    """Return the keys that say something, and are none of those that are known."""
    return [key for key, value in said.items() if key not in known and value not in (None, False)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
