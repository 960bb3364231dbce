"""Attributes: one column of a table, with its public description.

An attribute lists the values that can occur, agreed before any row is read. Nothing here is ever
computed from data. Labels of binaries and categoricals are text; numbers and booleans in a study
file or a data file are compared by their canonical text (`label_text`), so ``1``, ``1.0`` and
``"1"`` are the same label. A code such as ``1.10`` of a study file is what was written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from dppca.common.kernel.documents.names import check_name
from dppca.common.kernel.documents.stated_fields import (
    NUMBER,
    TRUTH,
    WHOLE,
    Concept,
    Description,
    Unit,
)
from dppca.common.kernel.documents.yaml_text import WrittenFloat
from dppca.common.kernel.schema.texts import DAY_0
from dppca.common.kernel.schema.texts import MAX_LABEL_LENGTH as MAX_LABEL_LENGTH
from dppca.common.kernel.schema.texts import count_days as count_days

MAX_BINS = 256  # of a number
MAX_LEVELS = 100  # of an ordinal attribute
MAX_SPIKES = 16  # values of a number with cells of their own
MAX_MISSING_VALUES = 64  # codes that stand for missing
_LEAST_WIDTH = 1e-12
"""Least width of a bin, a share of the range: its ends are two coordinates, also by `Score.LOG`."""


def label_text(value: object) -> str:
    """Canonical text of a label: a string (outer blanks are dropped), boolean, integer or float.

    Booleans are ``true`` or ``false``; integral floats have no fraction. A number of YAML whose
    text says more than the number is what was written: ``1.10`` is not ``1.1``.
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenFloat):
        return value.written
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _label(value: object) -> str:
    if value is None or isinstance(value, (list, dict)):
        raise ValueError("a label is text, a number or a boolean; quote words such as null")
    text = label_text(value)
    if not text or len(text) > MAX_LABEL_LENGTH:
        raise ValueError(f"a label has 1 to {MAX_LABEL_LENGTH} characters")
    return check_name(text)


def check_finite(value: float) -> float:
    """Return a number as it is written; `ValueError` if it is not finite."""
    if not math.isfinite(value):
        raise ValueError("must be finite")
    return value + 0.0  # -0.0 and 0.0 are one number, and must be one digest


def find_neighbour(value: float, towards: float, *, integer: bool) -> float:
    """Return the next value in a direction, an infinity: of all floats, or of whole numbers."""
    return value + math.copysign(1, towards) if integer else math.nextafter(value, towards)


def _name(value: str) -> str:
    if value != value.strip():
        raise ValueError(
            "a name neither starts nor ends with spaces, which a file's header may have"
        )
    return check_name(value)


def day_text(days: float) -> str:
    """Return the date of a number of days since 1970 as text, such as ``2020-01-31``."""
    return date.fromordinal(round(days) + DAY_0).isoformat()


def _day(value: object) -> float:
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, date) or isinstance(value, datetime):
        raise ValueError("must be a date such as 2020-01-31")  # noqa: TRY004 - pydantic's
    return float(count_days(value))


def _codes_of_missing(value: object) -> tuple[tuple[str, str], ...]:
    """Return codes and their words, from a mapping of codes to words, or a list of codes."""
    if isinstance(value, Mapping):
        pairs = [(_label(code), "" if words is None else words) for code, words in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(_label(code), "") for code in value]
    else:
        raise ValueError("missing_values is codes with words, {-99: refused}, or a list of codes")  # noqa: TRY004 - pydantic's
    if len(pairs) > MAX_MISSING_VALUES:
        raise ValueError(f"missing_values has {MAX_MISSING_VALUES} codes at most")
    if len({code for code, _ in pairs}) < len(pairs):
        raise ValueError("missing_values has a code twice")
    for code, words in pairs:
        if not isinstance(words, str) or len(words) > MAX_LABEL_LENGTH:
            raise ValueError(f"the words for {code}: text of {MAX_LABEL_LENGTH} characters at most")
        check_name(words)
    return tuple(sorted(pairs))


MissingValues = Annotated[
    tuple[tuple[str, str], ...],
    BeforeValidator(_codes_of_missing),
    PlainSerializer(dict, return_type=dict[str, str]),
    WithJsonSchema({"type": ["object", "array"]}),
]
"""Codes that mean that a value is missing, each with its words for people, in the codes' order."""
Label = Annotated[
    str,
    BeforeValidator(_label),
    WithJsonSchema({"type": ["string", "number", "boolean"]}, mode="validation"),
]
Finite = Annotated[float, NUMBER, AfterValidator(check_finite)]
Day = Annotated[
    float,
    BeforeValidator(_day),
    PlainSerializer(day_text, return_type=str),
    WithJsonSchema({"type": "string", "format": "date"}),
]
Name = Annotated[str, Field(min_length=1, max_length=128), AfterValidator(_name)]


def _as_in_a_file(schema: dict[str, Any], model: type[_Strict]) -> None:
    """Adapt a JSON Schema to files: the type is required, and hidden fields are left out."""
    schema["properties"]["type"].pop("default", None)
    needed = {*schema["required"], "type"}
    schema["required"] = [name for name in schema["properties"] if name in needed]
    for key in model.HIDDEN:
        schema["properties"].pop(key, None)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_as_in_a_file)
    HIDDEN: ClassVar[tuple[str, ...]] = ()
    """Fields that a document of this kind lacks, because they follow from its type."""
    UNSAID: ClassVar[Mapping[str, object]] = MappingProxyType(
        dict.fromkeys(("missing_values", "description", "why", "concept", "unit", "unknown"))
    )
    """Later fields, which a document lacks where they have this value."""

    @model_serializer(mode="wrap")
    def _as_before(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave later fields out where unset: old documents keep their bytes and digest."""
        return {
            key: value
            for key, value in written(self).items()
            if key not in self.HIDDEN and self.UNSAID.get(key, ...) != value
        }


class Score(StrEnum):
    """Scale on which a value between its bounds becomes a coordinate in ``[-1/2, 1/2]``."""

    LINEAR = "linear"
    LOG = "log"


_COUNTING = MappingProxyType(
    {
        "score": Score.LINEAR,
        "integer": False,
        "spikes": None,
        "bins": None,
        "histogram": False,
        "products": None,
        "missing": None,
    }
)
"""Fields of a number on its cells, which need bounds."""


class Numeric(_Strict):
    """A number.

    Box coding needs ``lower < upper``: values are clipped to them and mapped to ``[-1/2, 1/2]`` by
    ``score``. Unit-ball rows (`Schema.row_norm`) need ``centre`` and ``scale > 0``. A missing or
    non-finite value is coded as the middle, whose coordinate is 0, unless ``missing`` says
    otherwise.

    ``bins``, ``integer``, ``spikes`` and ``missing`` define the cells in which rows are counted and
    from which synthetic values are drawn.

    Attributes
    ----------
    name
        Column in the files.
    type
        The kind of attribute.
    lower, upper
        Public bounds, agreed before any row is read; other values are clipped to them.
    centre, scale
        For unit-ball rows, instead of bounds: a value becomes ``(x - centre) / scale``.
    score
        Scale on which the value enters products. ``log`` is for amounts of several orders of
        magnitude, such as money: the logarithm of ``1 + 1000 t``, with t the value's place between
        its bounds, from 0 to 1. The lowest thousandth then takes as much as a tenth elsewhere.
    integer
        True if values are whole numbers, up to 2^53; so are synthetic values then. Another value
        counts as the nearest whole number between the bounds, and is a fault.
    spikes
        Values that many rows have exactly, in ascending order: ``[0]`` for money and counts,
        ``[40]`` for hours of work. Each has its own cell, after all others. Needs ``histogram:
        true`` or ``products: bins``.
    bins
        Number of cells of equal width on the score's scale, or the edges between them, in ascending
        order. Default: one cell for each whole number if there are at most 100, otherwise 40.
    histogram
        True releases the number of rows in each cell. All histograms together add a little noise to
        everything; see `Schema.histogram_weight`.
    products
        ``bins``: the value enters products by its bin, like a categorical, so that synthetic rows
        keep relations that do not rise or fall steadily. The rows in each bin are then among the
        column sums, without a histogram. Needs ``bins``, and makes as many coded columns.
    missing
        ``indicator`` if values may be missing: a column more keeps the relations of being missing
        apart from those of the value. ``level``: only a cell more, while missing values count as
        the middle in products; needs ``histogram: true`` or ``products: bins``. With either,
        missing and non-finite values are no fault, and null in synthetic rows.
    missing_values
        Codes that mean that a value is missing, in place of the schema's.
    description
        What it is, for readers.
    why
        Why the study needs it.
    concept
        Its code in a public vocabulary, such as ``LOINC:8480-6``.
    unit
        What its numbers count, such as ``kg``.
    """

    UNSAID: ClassVar[Mapping[str, object]] = MappingProxyType({**_COUNTING, **_Strict.UNSAID})

    name: Name
    type: Literal["numeric"] = "numeric"
    lower: Finite | None = None
    upper: Finite | None = None
    centre: Finite | None = None
    scale: Finite | None = None
    score: Score = Score.LINEAR
    integer: Annotated[bool, TRUTH] = False
    spikes: Annotated[tuple[Finite, ...], Field(min_length=1, max_length=MAX_SPIKES)] | None = None
    bins: Annotated[int, Field(ge=2, le=MAX_BINS), WHOLE] | tuple[Finite, ...] | None = None
    histogram: Annotated[bool, TRUTH] = False
    products: Literal["bins"] | None = None
    missing: Literal["level", "indicator"] | None = None
    missing_values: MissingValues | None = None
    description: Description | None = None
    why: Description | None = None
    concept: Concept | None = None
    unit: Unit | None = None

    @model_validator(mode="before")
    @classmethod
    def _own_fields(cls, document: Any) -> Any:
        foreign = [key for key in cls.HIDDEN if isinstance(document, Mapping) and key in document]
        if foreign:
            raise ValueError(f"{', '.join(foreign)} is for type: numeric")
        return cls._filled(document) if isinstance(document, Mapping) else document

    @classmethod
    def _filled(cls, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the document with hidden fields added, for validation."""
        return document

    @model_validator(mode="after")
    def _one_pair(self) -> Self:
        box = (self.lower is not None, self.upper is not None)
        ball = (self.centre is not None, self.scale is not None)
        if any(box) == any(ball) or any(box) != all(box) or any(ball) != all(ball):
            raise ValueError(
                "a numeric needs lower and upper (or, with row_norm, centre and scale)"
            )
        if self.lower is not None and self.upper is not None:
            if not self.lower < self.upper:
                raise ValueError("lower must be below upper")
            if not math.isfinite(self.upper - self.lower):
                raise ValueError("upper - lower must be finite")
        if self.scale is not None and not self.scale > 0:
            raise ValueError("scale must be above 0")
        return self

    @model_validator(mode="after")
    def _shape(self) -> Self:
        if self.lower is None or self.upper is None:
            given = [key for key, value in _COUNTING.items() if getattr(self, key) != value]
            if given:
                raise ValueError(f"{', '.join(given)} is for a numeric with lower and upper")
            return self
        whole = math.floor(self.upper) - math.ceil(self.lower) + 1
        if self.integer and whole < 2:
            raise ValueError("integer: fewer than two whole numbers lie between the bounds")
        if self.spikes is not None:
            self._check_spikes(self.spikes)
        if self.missing == "level" and not self.histogram and self.products is None:
            raise ValueError("missing: level needs histogram: true or products: bins")
        if self.missing == "indicator" and self.products is not None:
            raise ValueError("products: bins has a bin for missing values by missing: level")
        if self.products is not None:
            if self.bins is None:
                raise ValueError("products: bins needs bins: a number of them, or edges")
            if self.histogram:
                raise ValueError(
                    "products: bins releases the rows in each bin, so leave histogram out"
                )
        if isinstance(self.bins, tuple):
            edges = (self.lower, *self.bins, self.upper)
            if not 1 <= len(self.bins) < MAX_BINS or any(a >= b for a, b in pairwise(edges)):
                raise ValueError(
                    f"bins are 1 to {MAX_BINS - 1} edges in ascending order, all of them strictly "
                    "between lower and upper, or the number of bins"
                )
            if self.integer and any(math.ceil(a) >= b for a, b in pairwise(edges)):
                raise ValueError("bins: a whole number must lie between any two edges")
            least = (self.upper - self.lower) * _LEAST_WIDTH
            if not self.integer and any(b - a < least for a, b in pairwise(edges)):
                raise ValueError(
                    f"bins: any two edges must be {_LEAST_WIDTH:g} of the range between the bounds "
                    "apart, or more"
                )
        return self

    def _check_spikes(self, spikes: tuple[float, ...]) -> None:
        lower, upper = self.bounds
        if not self.histogram and self.products is None:
            raise ValueError("spikes needs histogram: true or products: bins")
        if any(a >= b for a, b in pairwise(spikes)):
            raise ValueError("spikes must differ, and be in ascending order")
        if not lower <= spikes[0] <= spikes[-1] <= upper:
            raise ValueError("spikes must lie between lower and upper")
        if self.integer and not all(spike.is_integer() for spike in spikes):
            raise ValueError("spikes must be whole numbers, as integer: true says of all values")
        other = float(math.ceil(lower)) if self.integer else lower
        for spike in spikes:
            if other == spike:
                other = find_neighbour(spike, math.inf, integer=self.integer)
        if other > upper:
            raise ValueError("spikes must leave another value between lower and upper")

    @property
    def bounds(self) -> tuple[float, float]:
        """``lower`` and ``upper`` of a numeric that has them."""
        assert self.lower is not None  # noqa: S101 - the schema's validator requires it
        assert self.upper is not None  # noqa: S101
        return self.lower, self.upper

    @property
    def middle(self) -> float:
        """Return the value that replaces a missing one."""
        if self.centre is not None:
            return self.centre
        lower, upper = self.bounds
        share = (
            0.5 if self.score is Score.LINEAR else math.expm1(math.log1p(LOG_REACH) / 2) / LOG_REACH
        )
        return lower + (upper - lower) * share

    def format_value(self, value: float) -> str:
        """Return a value as text for people."""
        return f"{value:g}"


LOG_REACH = 1000
"""Factor r of ``score: log``, the logarithm of 1 + r t for a place t between the bounds."""
_NUMBERS_ONLY = ("centre", "scale", "score", "integer", "spikes", "missing", "unit")


class Date(Numeric):
    """A day of the calendar: synthetic values are dates, too.

    It is coded like a numeric, in days; a time of day in the data is ignored.

    Attributes
    ----------
    name
        Column in the owners' files, with dates such as ``2020-01-31``.
    type
        The kind of attribute.
    lower, upper
        Public bounds; other days are clipped to them.
    bins
        As for a numeric; edges are dates.
    histogram, products, missing_values, description, why, concept
        As for a numeric.
    """

    HIDDEN: ClassVar[tuple[str, ...]] = _NUMBERS_ONLY

    type: Literal["date"] = "date"  # type: ignore[assignment]
    lower: Day
    upper: Day
    integer: Annotated[bool, TRUTH] = True
    bins: Annotated[int, Field(ge=2, le=MAX_BINS), WHOLE] | tuple[Day, ...] | None = None

    def format_value(self, value: float) -> str:
        """Return the date of a number of days."""
        return day_text(value)


class Ordinal(Numeric):
    """One of several ordered labels, such as ``low``, ``middle``, ``high``.

    It is coded as a numeric, by the places of the labels, in one column. A missing or unknown label
    is coded as the middle of the scale. If steps between labels differ much, use a categorical.

    Attributes
    ----------
    name
        Column in the files.
    type
        The kind of attribute.
    levels
        The labels, the lowest first.
    histogram
        True releases the number of rows with each label.
    missing_values
        As for a numeric; none is one of the levels.
    description, why, concept
        As for a numeric.
    """

    HIDDEN: ClassVar[tuple[str, ...]] = (*_NUMBERS_ONLY, "lower", "upper", "bins", "products")

    type: Literal["ordinal"] = "ordinal"  # type: ignore[assignment]
    integer: Annotated[bool, TRUTH] = True
    levels: Annotated[tuple[Label, ...], Field(min_length=3, max_length=MAX_LEVELS)]

    @classmethod
    def _filled(cls, document: Mapping[str, Any]) -> Mapping[str, Any]:
        levels = document.get("levels")
        last = len(levels) - 1 if isinstance(levels, list | tuple) else 0
        return {**document, "lower": 0, "upper": max(1, last)}

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_labels(self.levels, None)
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their places."""
        return self.levels

    def format_value(self, value: float) -> str:
        """Return the label at a place, or the two labels around it."""
        lower, upper = self.levels[math.floor(value)], self.levels[math.ceil(value)]
        return lower if lower == upper else f"between {lower} and {upper}"


class Binary(_Strict):
    """One of two labels; the second is coded positive.

    Attributes
    ----------
    name
        Column in the files.
    type
        The kind of attribute.
    values
        The two labels. Only ``true`` and ``false`` are booleans; ``No``, ``010`` and ``1.10`` are
        text.
    missing
        Label that codes a missing or unknown value. Default: the first. If given, a missing value
        is no fault.
    missing_values
        As for a numeric; none is one of the labels.
    description, why, concept
        As for a numeric.
    """

    name: Name
    type: Literal["binary"] = "binary"
    values: tuple[Label, Label]
    missing: Label | None = None
    missing_values: MissingValues | None = None
    description: Description | None = None
    why: Description | None = None
    concept: Concept | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_labels(self.values, self.missing)
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their codes."""
        return self.values

    @property
    def missing_code(self) -> int:
        """Code of a missing or unknown value."""
        return 0 if self.missing is None else self.values.index(self.missing)


class Categorical(_Strict):
    """One of three or more labels, coded as indicators.

    A missing or unknown value is coded as ``unknown``, a label of its own after the categories;
    without it as ``missing``, one of the categories; else as the first category.

    Attributes
    ----------
    name
        Column in the files.
    type
        The kind of attribute.
    categories
        The labels; three at least, ``unknown`` included.
    missing
        Category that codes a missing or unknown value. If given, a missing value is no fault.
    unknown
        A label of its own, after the categories, for missing values and labels that are not listed.
        It costs one more coded column. Not with ``missing``.
    missing_values
        As for a numeric; none is one of the labels.
    description, why, concept
        As for a numeric.
    """

    name: Name
    type: Literal["categorical"] = "categorical"
    categories: Annotated[tuple[Label, ...], Field(min_length=2)]
    missing: Label | None = None
    unknown: Label | None = None
    missing_values: MissingValues | None = None
    description: Description | None = None
    why: Description | None = None
    concept: Concept | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.unknown is not None and self.missing is not None:
            raise ValueError("give missing (one of the categories) or unknown (a label of its own)")
        if self.unknown in self.categories:
            raise ValueError(
                "unknown must be a label of its own: take it out of categories, or say "
                "missing instead"
            )
        if len(self.labels) < 3:
            raise ValueError("a categorical has three labels at least; one with two is a binary")
        _check_labels(self.labels, self.missing)
        return self

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in the order of their codes."""
        return self.categories if self.unknown is None else (*self.categories, self.unknown)

    @property
    def missing_code(self) -> int:
        """Code of a missing or unknown value."""
        label = self.missing if self.unknown is None else self.unknown
        return 0 if label is None else self.labels.index(label)


Attribute = Annotated[Numeric | Date | Ordinal | Binary | Categorical, Field(discriminator="type")]


def list_labels(attribute: Attribute) -> tuple[str, ...] | None:
    """Return the labels of an attribute's values; None for numbers and dates."""
    if isinstance(attribute, Numeric) and not isinstance(attribute, Ordinal):
        return None
    return attribute.labels


def _check_labels(labels: tuple[str, ...], missing: str | None) -> None:
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(
            f"labels must differ, and {twice} is there twice (a number is one label however it is "
            "written: 1.0 is 1; put a label that is a text into quotes)"
        )
    if missing is not None and missing not in labels:
        raise ValueError("missing must be one of the labels")


def describe_values(attribute: Attribute) -> tuple[str, ...]:
    """Return the values that count, for people: all labels, or one text on a number's range."""
    if not isinstance(attribute, Numeric) or isinstance(attribute, Ordinal):
        return attribute.labels
    if attribute.scale is not None:
        return (f"about {attribute.middle:g}, scale {attribute.scale:g}",)
    return (" to ".join(map(attribute.format_value, attribute.bounds)),)
