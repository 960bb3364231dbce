"""What coding has to mend in a table: counts by attribute and kind, and how they are said.

All of it is `site-only`: it is computed from raw rows without noise. It may be shown to the
steward, who decides; it never enters a ledger, a receipt, a released file or a message.

*Coded by rule* is every value that the schema's rules had to put in the place of what the file
holds. It is a *fault* unless the schema provides for it: a missing value of an attribute that says
what a missing value is taken for (``missing:``, ``unknown:``) is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Annotated, NotRequired, TypedDict, cast

from dppca.common.documents.values import CodedAttribute, CodedByRule
from dppca.common.privacy.labels import Label
from dppca.common.schema import Attribute, Categorical, Numeric
from dppca.common.schema.attributes import Date, Ordinal, list_labels
from dppca.common.study import FaultRule

WARNING = (
    "These counts are site-only: do not send them, and do not choose bounds or categories by them; "
    "a choice made from data is outside the privacy guarantee."
)
MALFORMED = "malformed rows"


class FaultKind(StrEnum):
    """What can be wrong with a value."""

    MISSING = "missing"
    """Null, empty or NaN."""
    TEXT = "text"
    """No number in a numeric column, no date in a date's."""
    INFINITE = "infinite"
    """A number that is not finite."""
    UNKNOWN = "unknown"
    """A label that the attribute does not list."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """A number below the lower or above the upper bound."""


class LineFault(StrEnum):
    """What can be wrong with a line of a CSV file; one kind a line."""

    FIELDS = "fields"
    """More or fewer fields than the header."""
    OPEN_QUOTE = "open-quote"
    """A quote that the line does not close, such as by a line break inside quotes."""
    TOO_LONG = "too-long"
    """More bytes than are read of a line."""
    ENCODING = "encoding"
    """Bytes that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class FaultCount:
    """Values or rows of one kind of fault."""

    count: Annotated[int, "how many"] = 0
    rows: Annotated[
        tuple[int, ...], "numbers of the first rows; the first row after the header is 1"
    ] = ()

    def extended(self, rows: Collection[int], limit: int) -> FaultCount:
        """With more rows; at most ``limit`` numbers are kept."""
        room = max(0, limit - len(self.rows))
        return FaultCount(self.count + len(rows), (*self.rows, *islice(rows, room)))


@dataclass(frozen=True, slots=True)
class AttributeReport:
    """What is wrong with one attribute; kinds that do not occur have no entry.

    Attributes
    ----------
    missing_allowed
        The attribute says what a missing value is taken for, so it is no fault.
    coded_as
        What is put in the place of a value that is not known.
    form
        What a value has to be, such as a number.
    """

    name: str
    missing_allowed: bool
    coded_as: str
    form: str
    found: Mapping[FaultKind, FaultCount]

    def count(self, kind: FaultKind) -> int:
        """Values of one kind."""
        return self.found.get(kind, FaultCount()).count

    @property
    def by_rule(self) -> int:
        """Values coded by rule."""
        return sum(found.count for found in self.found.values())

    @property
    def faults(self) -> int:
        """Values coded by rule that the schema does not provide for."""
        return self.by_rule - self.missing_allowed * self.count(FaultKind.MISSING)

    @property
    def faultless(self) -> bool:
        """Whether coding has nothing to mend but missing values that the schema provides for."""
        return self.faults == 0


@dataclass(frozen=True, slots=True)
class TargetReport:
    """Whether a model that stays at this site could learn an attribute: two labels must occur."""

    name: str
    n_labels: int
    n_occurring: int

    @property
    def trainable(self) -> bool:
        """Whether there is something to learn."""
        return self.n_occurring > 1


_FoundLines = TypedDict(
    "_FoundLines",
    {
        "open-quote": NotRequired[Annotated[FaultCount, "a quote that the line does not close"]],
        "too-long": NotRequired[Annotated[FaultCount, "more bytes than are read of a line"]],
        "encoding": NotRequired[Annotated[FaultCount, "bytes that are not UTF-8"]],
    },
)
_FoundBounds = TypedDict(
    "_FoundBounds",
    {"out-of-bounds": NotRequired[Annotated[FaultCount, "a number outside of the bounds"]]},
)


class MalformedRows(_FoundLines):
    """Rows of a CSV file that are not as its header says."""

    count: Annotated[int, "how many, of all kinds"]
    rows: Annotated[list[int], "numbers of the first rows"]
    fields: NotRequired[Annotated[FaultCount, "more or fewer fields than the header"]]


class CheckedTarget(TypedDict):
    """Whether a classifier of an attribute could learn."""

    name: Annotated[str, "the attribute"]
    labels: Annotated[int, "labels that the schema lists"]
    occurring: Annotated[int, "labels that occur"]
    trainable: Annotated[bool, "whether at least two labels occur"]


class CheckedAttribute(_FoundBounds):
    """Faults of an attribute; a kind that does not occur has no key."""

    faultless: Annotated[bool, "whether all values conform to the schema"]
    missing_allowed: Annotated[bool, "whether the schema says what a missing value counts as"]
    missing: NotRequired[Annotated[FaultCount, "null, empty or NaN"]]
    text: NotRequired[Annotated[FaultCount, "no number in a numeric column, no date in a date's"]]
    infinite: NotRequired[Annotated[FaultCount, "a number that is not finite"]]
    unknown: NotRequired[Annotated[FaultCount, "a label that the schema does not list"]]


class StatedFaults(TypedDict):
    """Every fault of a table."""

    label: Annotated[Label, "where it may go"]
    warning: Annotated[str, "what must not be done with it"]
    faultless: Annotated[bool, "whether every row conforms to the schema"]
    rows: Annotated[int, "rows that were read"]
    row_numbers: Annotated[str, "how rows are numbered, and how many numbers are given"]
    extra_columns: Annotated[list[str], "columns that were not read"]
    files: NotRequired[
        Annotated[list[int], "rows of each file of several, in the order of their names"]
    ]
    malformed_rows: Annotated[MalformedRows, "rows of a CSV file that do not fit its header"]
    target: Annotated[CheckedTarget | None, "the attribute that was asked about"]
    attributes: Annotated[dict[str, CheckedAttribute], "every attribute"]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What is wrong with a table.

    Attributes
    ----------
    n_rows
        Rows read. Row numbers count data rows: the first after the header is row 1.
    limit
        Row numbers given at most, per attribute and kind.
    malformed
        Rows of a CSV file that are not as its header says.
    extra_columns
        Not read; no fault.
    target
        Where one was asked about; no fault either way.
    file_rows
        Rows of each file, where there are several.
    """

    n_rows: int
    limit: int
    attributes: tuple[AttributeReport, ...]
    malformed: Mapping[LineFault, FaultCount]
    extra_columns: tuple[str, ...]
    target: TargetReport | None = None
    file_rows: tuple[int, ...] = ()
    label: Label = Label.SITE_ONLY

    @property
    def faultless(self) -> bool:
        """Whether every row conforms to the schema."""
        return not self.malformed and all(a.faultless for a in self.attributes)

    @property
    def n_malformed(self) -> int:
        """Rows of a CSV file that are not as its header says, of any kind."""
        return sum(found.count for found in self.malformed.values())

    def above(self, rule: FaultRule | None) -> dict[str, float]:
        """Shares of faults that are above what a study agreed on, by attribute.

        Rows of a CSV file that are not as its header says go by `MALFORMED`. Empty without a rule.
        """
        if rule is None:
            return {}
        counts = {a.name: a.faults for a in self.attributes} | {MALFORMED: self.n_malformed}
        shares = {name: count / self.n_rows for name, count in counts.items()}
        return {name: share for name, share in shares.items() if share > rule.refuse_if_above}

    def to_document(self) -> StatedFaults:
        """Plain values for JSON."""
        document: StatedFaults = {
            "label": self.label,
            "warning": WARNING,
            "faultless": self.faultless,
            "rows": self.n_rows,
            "row_numbers": f"data rows from 1 (the header is not counted), first {self.limit}",
            "extra_columns": list(self.extra_columns),
            "malformed_rows": cast(
                "MalformedRows",
                {
                    "count": self.n_malformed,
                    "rows": sorted(row for f in self.malformed.values() for row in f.rows),
                    **self.malformed,
                },
            ),
            "target": None
            if self.target is None
            else {
                "name": self.target.name,
                "labels": self.target.n_labels,
                "occurring": self.target.n_occurring,
                "trainable": self.target.trainable,
            },
            "attributes": {
                attribute.name: cast(
                    "CheckedAttribute",
                    {
                        "faultless": attribute.faultless,
                        "missing_allowed": attribute.missing_allowed,
                        **attribute.found,
                    },
                )
                for attribute in self.attributes
            },
        }
        if self.file_rows:
            document["files"] = list(self.file_rows)
        return document

    def counts_document(self, rule: FaultRule | None) -> CodedByRule:
        """Counts without row numbers, for the documents of other commands; plain values."""
        return {
            "label": self.label,
            "warning": WARNING,
            "rows": self.n_rows,
            "malformed_rows": self.n_malformed,
            "attributes": {
                attribute.name: cast(
                    "CodedAttribute",
                    {
                        **{kind.value: found.count for kind, found in attribute.found.items()},
                        "share": attribute.by_rule / self.n_rows,
                        "faults": attribute.faults,
                        "coded_as": attribute.coded_as,
                    },
                )
                for attribute in self.attributes
                if attribute.by_rule
            },
            "refuse_if_above": None if rule is None else rule.refuse_if_above,
            "above": self.above(rule),
        }


def coded_as(attribute: Attribute) -> str:
    """What is put in the place of a value that is not known, in words."""
    if isinstance(attribute, Numeric):
        if attribute.missing is not None:
            return "missing, a level of its own"
        what = "labels" if isinstance(attribute, Ordinal) else "bounds"
        return f"{attribute.format_value(attribute.middle)}, the middle of the {what}"
    label = attribute.labels[attribute.missing_code]
    if isinstance(attribute, Categorical) and attribute.unknown is not None:
        return f"{label}, a label of its own"
    return f"{label}, {'as the schema says' if attribute.missing else 'the first label'}"


def form_of(attribute: Attribute) -> str:
    """What a value of the attribute has to be, in words."""
    if isinstance(attribute, Date):
        return "a date as YYYY-MM-DD"
    return "a number" if list_labels(attribute) is None else "one of its labels"


def describe_coding(attribute: AttributeReport, kind: FaultKind) -> str:
    """What becomes of an attribute's values of one kind, in words."""
    nearest = kind is FaultKind.OUT_OF_BOUNDS
    return "coded as the nearest bound" if nearest else f"coded as {attribute.coded_as}"
