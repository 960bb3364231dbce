"""Values that coding replaces in a table: counts by attribute and kind, and their descriptions.

All of it is `site-only`: it is computed from raw rows without noise. It may be shown to the
steward, who decides; it never enters a ledger, a receipt, a released file or a message.

A value is *coded by rule* if the schema's rules replace the file's content by another value. It is
a *fault* unless the schema provides for it: a missing value is no fault if the attribute states
its code (``missing:``, ``unknown:``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.errors import PrivacyError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema import Attribute, Categorical, Numeric
from dppca.common.kernel.schema.attributes import Date, Ordinal, list_labels
from dppca.common.kernel.study import FaultRule
from dppca.owner.records.source_facts import FaultCount, LineFault, ShownFacts

WARNING = (
    "These counts are site-only: do not send them, and do not choose bounds or categories by them; "
    "a choice made from data is outside the privacy guarantee."
)
MALFORMED = "malformed rows"


class CellOutcome(StrEnum):
    """What a mapping made of a cell, for counts by attribute; site-only."""

    OTHERWISE = "otherwise"
    """A cell that is not listed, which became what `otherwise` says."""
    CODE = "code"
    """A cell that is one of the site's codes for missing."""
    NO_CASE = "no-case"
    """A row in which no case holds."""


Outcomes = Mapping[str, Mapping[CellOutcome, int]]


class FaultKind(StrEnum):
    """Kind of fault of a value."""

    MISSING = "missing"
    """Null, empty, NaN, or one of the study's codes for it."""
    TEXT = "text"
    """No number in a numeric column, no date in a date's."""
    INFINITE = "infinite"
    """A number that is not finite."""
    UNKNOWN = "unknown"
    """A label that the attribute does not list."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """A number below the lower or above the upper bound."""
    NOT_WHOLE = "not-whole"
    """A number with a fraction, where ``integer: true`` says that there is none."""


_NEAREST = {FaultKind.OUT_OF_BOUNDS: "bound", FaultKind.NOT_WHOLE: "whole number"}


@dataclass(frozen=True, slots=True)
class CodeCount:
    """Cells that are one code of the study for a missing value."""

    words: Annotated[str, "what the code means, in the study's words"]
    count: Annotated[int, "how many cells are it"]


@dataclass(frozen=True, slots=True)
class AttributeReport:
    """Values of an attribute that coding replaced."""

    missing_allowed: Annotated[bool, "whether the schema says what a missing value counts as"]
    coded_as: Annotated[str, "what takes the place of a value that is not known"]
    form: Annotated[str, "what a value must be, in words"]
    found: Annotated[
        Mapping[FaultKind, FaultCount],
        "such values by kind: `missing` (null, empty, NaN, or a code for it), `text` (no number in "
        "a numeric column, no date in a date's), `infinite`, `unknown` (a label that the schema "
        "does not list), `out-of-bounds`, `not-whole` (a fraction where the schema says `integer: "
        "true`); a kind that does not occur has no key",
    ]

    missing_values: Annotated[
        Mapping[str, CodeCount], "the study's codes for a missing value, which `missing` counts too"
    ] = field(default_factory=dict)
    missing_words: Annotated[
        Mapping[str, int],
        "other words such as `NA` that stand for missing values, and how many cells are each",
    ] = field(default_factory=dict)
    listed_words: Annotated[
        Mapping[str, int],
        "such words that the schema lists as labels, and how many cells have each label",
    ] = field(default_factory=dict)
    near_labels: Annotated[
        Mapping[str, int],
        "labels of the schema, and how many unknown cells differ from each only by capitals, "
        "accents, full width, blanks or marks",
    ] = field(default_factory=dict)
    zones: Annotated[
        tuple[str, ...], "zones of a column of times; a time counts as its day in its own zone"
    ] = ()
    midnights: Annotated[
        tuple[str, ...],
        "times of the day that all its times have, if they look like midnights of another zone, "
        "of which each would be counted as the day before",
    ] = ()
    declared_missing: Annotated[
        int, "missing values that the file declares so, such as 97 to 99 of SPSS or `.a` of Stata"
    ] = 0
    commonest_out: Annotated[
        str,
        "value that most of those out of bounds have, of 5 rows at least, which may be a code for "
        "missing, or two to four that have a quarter each; else empty",
    ] = ""
    value_labels: Annotated[
        Mapping[str, str],
        "labels that the schema lists, and the codes that the file has in their place",
    ] = field(default_factory=dict)

    outcomes: Annotated[
        Mapping[CellOutcome, int],
        "cells that a mapping read by a rule: `code` (one of the site's codes for missing), "
        "`otherwise` (not listed), `no-case` (no case holds)",
    ] = field(default_factory=dict)

    def count(self, kind: FaultKind) -> int:
        """Values of one kind."""
        return self.found.get(kind, FaultCount()).count

    @property
    def by_rule(self) -> Annotated[int, "values of all kinds"]:
        """Values coded by rule."""
        return sum(found.count for found in self.found.values())

    @property
    def faults(self) -> Annotated[int, "such values that the schema does not provide for"]:
        """Values coded by rule that the schema does not provide for."""
        return self.by_rule - self.missing_allowed * self.count(FaultKind.MISSING)


@dataclass(frozen=True, slots=True)
class TargetReport:
    """Labels of an attribute that a model of this site would learn to predict."""

    name: Annotated[str, "the attribute"]
    labels: Annotated[int, "labels that the schema lists"]
    occurring: Annotated[int, "labels that occur"]

    @property
    def trainable(self) -> Annotated[bool, "whether at least two labels occur"]:
        """True if at least two labels occur."""
        return self.occurring > 1


@dataclass(frozen=True, slots=True)
class KeyReport:
    """Rows that one person has, by the column that `key` in the policy names."""

    column: Annotated[str, "the column"]
    allowed: Annotated[
        int | None, "most rows of one person that the study protects; null if any number is"
    ]
    most: Annotated[int, "most rows that have one key"]
    missing: Annotated[int, "rows without a key: whose they are was not counted"]
    alike: Annotated[
        int,
        "keys that are another one but for zeros in front, capital letters, or how a letter or "
        "number is written",
    ] = 0
    together: Annotated[int, "most rows of such keys, if these are one person; 0 without any"] = 0
    people: Annotated[int | None, "people, where the study protects people; else null"] = None

    @property
    def is_kept(self) -> Annotated[bool, "whether no key has more rows than the study allows"]:
        """True if the study's promise is for every key that occurs."""
        return self.allowed is None or self.most <= self.allowed


@dataclass(frozen=True, slots=True)
class CheckReport(ShownFacts):
    """Values and rows that coding replaced."""

    rows: Annotated[int, "rows that were read"]
    limit: Annotated[
        int, "numbers of rows that are given at most, for each attribute and kind of fault"
    ]
    attributes: Annotated[Mapping[str, AttributeReport], "every attribute"]
    malformed_rows: Annotated[
        Mapping[LineFault, FaultCount],
        "rows of a CSV file that do not fit its header, by kind: `fields` (more or fewer than the "
        "header), `open-quote` (a quote that the line does not close), `too-long`, `encoding` "
        "(bytes that are not UTF-8)",
    ]
    extra_columns: Annotated[tuple[str, ...], "columns that were not read"]
    target: Annotated[TargetReport | None, "the attribute that was asked about"] = None
    files: Annotated[
        tuple[int, ...], "rows of each file of several, in the order of their names"
    ] = ()
    _: KW_ONLY
    key: Annotated[KeyReport | None, "rows of one person; null if the policy names no key"] = None
    repeating: Annotated[
        tuple[str, ...],
        "columns whose names say that a person may have several rows, such as REDCap's "
        "`redcap_repeat_instrument`, where no key counts them",
    ] = ()
    mapping: Annotated[
        tuple[str, ...], "where attributes come from by the site's mapping, in words; none without"
    ] = ()
    refuse_if_above: Annotated[float | None, "share of faults that the study allows"] = None
    label: Annotated[Label, "where it may go"] = Label.SITE_ONLY
    warning: Annotated[str, "what must not be done with it"] = WARNING

    @property
    def faultless(self) -> Annotated[bool, "whether every row conforms to the schema"]:
        """True if coding replaces only missing values that the schema provides for.

        No person may have more rows than the study allows, either.
        """
        found = self.malformed_rows or any(a.faults for a in self.attributes.values())
        return not found and (self.key is None or self.key.is_kept)

    @property
    def n_malformed(self) -> int:
        """Rows of a CSV file that do not match its header, of any kind."""
        return sum(found.count for found in self.malformed_rows.values())

    @property
    def above(self) -> Annotated[dict[str, float], "shares of faults that are above it"]:
        """Shares of faults above the study's limit, by attribute.

        `MALFORMED` is the key for rows of a CSV file that do not match its header. Empty without a
        rule.
        """
        if self.refuse_if_above is None:
            return {}
        counts = {name: each.faults for name, each in self.attributes.items()}
        counts[MALFORMED] = self.n_malformed
        shares = {name: count / self.rows for name, count in counts.items()}
        return {name: share for name, share in shares.items() if share > self.refuse_if_above}

    def without_values(self) -> CheckReport:
        """Return the counts alone, for what says that something was sent: it is kept and passed on.

        A value that many rows have, and words of a mapping, are for the people who look at the
        data, in `check` and `review`.
        """
        found = {name: replace(each, commonest_out="") for name, each in self.attributes.items()}
        return replace(self, attributes=found, mapping=())

    def under(self, rule: FaultRule | None) -> CheckReport:
        """Report with a study's rule applied."""
        return replace(self, refuse_if_above=None if rule is None else rule.refuse_if_above)


def coded_as(attribute: Attribute) -> str:
    """Description of the value that replaces an unknown one."""
    if isinstance(attribute, Numeric):
        if attribute.missing is not None:
            what = "a level" if attribute.missing == "level" else "with a column"
            return f"missing, {what} of its own"
        what = "labels" if isinstance(attribute, Ordinal) else "bounds"
        return f"{attribute.format_value(attribute.middle)}, the middle of the {what}"
    label = attribute.labels[attribute.missing_code]
    if isinstance(attribute, Categorical) and attribute.unknown is not None:
        return f"{label}, a label of its own"
    return f"{label}, {'as the schema says' if attribute.missing else 'the first label'}"


def form_of(attribute: Attribute, dates: str) -> str:
    """Description of an attribute's valid values, of which dates are written as ``dates``."""
    if isinstance(attribute, Date):
        return f"a date as {dates}"
    return "a number" if list_labels(attribute) is None else "one of its labels"


def describe_coding(attribute: AttributeReport, kind: FaultKind) -> str:
    """Description of the coding of an attribute's values of one kind."""
    nearest = _NEAREST.get(kind)
    return f"coded as {attribute.coded_as if nearest is None else f'the nearest {nearest}'}"


def key_line(key: KeyReport) -> str:
    """Return the most rows of one person, and what to do if the study allows fewer."""
    rows = many(key.most, "rows")
    if key.allowed is None:
        return (
            f"{key.column}: {many(key.people or 0, 'people')}, at most {rows} of one. If somebody "
            "has too many, one key may stand for several people, such as 0 or unknown"
        )
    lost = f", and none in {many(key.missing, 'rows')}, so whose they are is not known"
    more = lost if key.missing else ""
    if key.is_kept:
        return f"{key.column}: at most {rows} of one person; the study allows {key.allowed}{more}"
    times = -(-key.most // key.allowed)
    return (
        f"TOO MANY ROWS OF ONE PERSON: up to {rows} have one {key.column}, and the study allows "
        f"{key.allowed}{more}. That person would lose up to {times} times the epsilon that the "
        "study promises. Give fewer rows of each person, or ask the operator for a study with "
        f"max_rows_per_person: {key.most}; if {key.column} is not the number of a person, name "
        "the column that is as `key`, or none"
    )


def alike_line(key: KeyReport) -> str:
    """Return the question that keys ask which differ in how they are written; else empty."""
    if not key.alike:
        return ""
    lost = "and the study allows " + str(key.allowed)
    if key.allowed is None:
        lost = "which weigh as several people's"
    return (
        f"ONE PERSON? {key.alike} values of {key.column} are another one but for zeros in front, "
        "capital letters, or how a letter or number is written (1e3, 1000), and count as different "
        f"people. If they are the same, one person has {many(key.together, 'rows')}, {lost}: write "
        "each in one way"
    )


def require_rows_of_people(counted: CheckReport) -> None:
    """Raise `PrivacyError` if one person has more rows than the study allows.

    No table that keeps the study's promise is refused, so a refusal tells nothing about the people
    whom the promise protects.
    """
    if counted.key is not None and not counted.key.is_kept:
        raise PrivacyError(key_line(counted.key))
