"""What commands print or write as JSON: the kinds of values that keys of such documents hold.

A document is a dataclass that `to_document` writes field by field, or a ``TypedDict``: the
dictionary that is written. Each key has its meaning as the last text of its ``Annotated`` type; a
text before it names the kind of value. From both, ``tools.json_reference`` makes the page of keys
and the JSON Schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, NotRequired, TypedDict

from dppca.common.amounts import decimal_text

DecimalText = Annotated[str, "decimal as text"]
DigestText = Annotated[str, "hexadecimal digits"]
TimeText = Annotated[str, "date and time (ISO 8601)"]
PathText = Annotated[str, "path"]


class JsonBytes(bytes):
    """JSON as it came, such as a study's canonical form; in a document, what it says."""


def to_document(value: Any) -> Any:
    """JSON of a value: a dataclass by its fields, times in ISO 8601, decimals as exact text."""
    if is_dataclass(value):
        return {each.name: to_document(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, JsonBytes):
        return json.loads(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, Mapping):
        return {key: to_document(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_document(each) for each in value]
    return value


class Document(TypedDict):
    """What a command prints with ``--json``."""

    command: Annotated[str, "the command's name, without that of the program"]


class ErrorDocument(TypedDict):
    """What a command prints with ``--json`` where it fails; the exit code is the same."""

    error: Annotated[Fault, "what went wrong"]


Fault = TypedDict(
    "Fault",
    {
        "class": Annotated[str, "name of the error's class, or `UsageError` or `Interrupted`"],
        "message": Annotated[str, "what was wrong, as it is shown to people"],
        "exit_code": Annotated[int, "exit code of the process"],
    },
)
_CodedBounds = TypedDict(
    "_CodedBounds",
    {"out-of-bounds": NotRequired[Annotated[int, "a number outside of the bounds"]]},
)


class CodedAttribute(_CodedBounds):
    """Values of an attribute that were coded by rule; a kind that does not occur has no key."""

    missing: NotRequired[Annotated[int, "null, empty or NaN"]]
    text: NotRequired[Annotated[int, "no number in a numeric column"]]
    infinite: NotRequired[Annotated[int, "a number that is not finite"]]
    unknown: NotRequired[Annotated[int, "a label that the schema does not list"]]
    share: Annotated[float, "share of the rows, in [0, 1]"]
    faults: Annotated[int, "values that the schema does not provide for"]
    coded_as: Annotated[str, "what takes the place of a value that is not known"]


class CodedByRule(TypedDict):
    """Values that coding replaced, without row numbers."""

    label: Annotated[str, "where it may go"]
    warning: Annotated[str, "what must not be done with it"]
    rows: Annotated[int, "rows that were read"]
    malformed_rows: Annotated[int, "rows of a CSV file that do not fit its header"]
    attributes: Annotated[dict[str, CodedAttribute], "attributes with such values"]
    refuse_if_above: Annotated[float | None, "share of faults that the study allows"]
    above: Annotated[dict[str, float], "shares of faults that are above it"]


class VariationFigures(TypedDict):
    """How far two tables are apart in one or two attributes."""

    attributes: Annotated[Sequence[str], "their names"]
    found: Annotated[float, "total variation, in [0, 1]"]
    by_chance: Annotated[float, "what two samples of one distribution would give on average"]


class PairFigures(TypedDict):
    """How far two tables are apart in their pairs of attributes, in short."""

    mean: Annotated[float | None, "total variation, mean of all pairs; null without any"]
    by_chance: Annotated[float | None, "what chance would give, mean of all pairs"]
    worst: Annotated[Sequence[VariationFigures], "the ten pairs that differ most"]


class ProductsDocument(TypedDict):
    """The noise of one kind of products."""

    products: Annotated[str, "`all`, `with targets` or `without targets`"]
    noise: Annotated[float, "standard deviation of their noise, as a share of the rows"]
    limit: Annotated[float, "share of the rows from which on their relations are lost"]
    lost: Annotated[bool, "whether the noise is above the limit"]


class RelationsDocument(TypedDict):
    """Whether synthetic rows will show relations between attributes; enough is null if they do."""

    products: Annotated[list[ProductsDocument], "kinds of products"]
    warning: Annotated[str | None, "what will be lost, and what would be enough, in words"]
    epsilon: Annotated[DecimalText | None, "an epsilon that would be enough"]
    rows_per_owner: Annotated[int | None, "rows of each owner that would be enough, on average"]
    owners: Annotated[int | None, "owners that would be enough, with as many rows each"]
    assumption: Annotated[str | None, "what it assumes of numerics, in words; null without any"]


class VisibleAttribute(TypedDict):
    """What a release shows of one attribute's relations."""

    attribute: Annotated[str, "its name"]
    above: Annotated[int, "other attributes with which its relation stands above the noise"]
    strongest: Annotated[
        float, "largest correlation with a column of another that rows are made with, from 0 to 1"
    ]
    noise: Annotated[float, "standard deviation of the noise of such a correlation, the median"]
    spread: Annotated[
        float | None, "deviation over that of values that fill the bounds evenly; null for labels"
    ]
    alone: Annotated[bool, "whether rows have it on its own for practical purposes"]


class VisibleRelationsDocument(TypedDict):
    """Which relations a release shows above its noise; from released values alone."""

    pairs: Annotated[int, "pairs of attributes"]
    above: Annotated[int, "pairs whose relation stands above the noise; 5 % may be chance"]
    attributes: Annotated[list[VisibleAttribute], "in the order of the schema"]
    summary: Annotated[str, "the same in words"]


class LoadingFigures(TypedDict):
    """One loading of a component."""

    attribute: Annotated[str, "name of the attribute"]
    label: Annotated[str | None, "label towards which a positive one points; null for a numeric"]
    loading: Annotated[float, "entry of the component, in [-1, 1]"]


class ComponentFigures(TypedDict):
    """A kept component, and the attributes that it is made of."""

    eigenvalue: Annotated[float, "its variance, noise included, squared coded units"]
    above_noise: Annotated[bool, "whether it is above what noise alone reaches"]
    loadings: Annotated[list[LoadingFigures], "its eight largest by magnitude, descending"]


def differing_keys(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterator[str]:
    """Keys whose values differ in two documents, ascending; of an object within, as ``KEY.KEY``.

    Values are compared as text: 1, 1.0 and true are equal numbers, but not one document.
    """
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, dict) and isinstance(other, dict):
            yield from (f"{key}.{place}" for place in differing_keys(mine, other))
        elif (key in ours) is not (key in theirs) or json.dumps(mine, sort_keys=True) != json.dumps(
            other, sort_keys=True
        ):
            yield key
