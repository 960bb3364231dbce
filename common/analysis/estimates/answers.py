"""Answers: estimates with their intervals, or why there is none, in the words of statsmodels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from dppca.common.analysis.estimates.intervals import FiellerRatio, Interval, Normal
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments
from dppca.common.analysis.estimates.share_sets import ShareSet
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.attributes import Attribute, list_labels
from dppca.common.kernel.schema.units import Unit

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 80  # characters of a line
_ROUNDING = 1e-9  # of floats, beyond which an estimate is called impossible
EXPLORATORY = "If it is none of the study's questions, it is exploratory: 1 interval in 20 misses."
"""What an answer says where a study has questions, and nobody knows that it is to one of them."""
LEAST = 4.0
"""Least strength of a denominator, of a coefficient, of a correlation's variances."""


@dataclass(frozen=True, slots=True)
class NotEstimable:
    """Why an estimate is not given, and what would be enough."""

    reason: Annotated[str, "what is too weak, in words"]
    subject: Annotated[str, "the attribute or label that is"]
    strength: Annotated[float | None, "its size over the standard deviation of its noise"]
    least: Annotated[float, "the strength that is needed"]
    rows: Annotated[int | None, "rows of all owners at which it would be reached"]
    epsilon: Annotated[Decimal | None, "epsilon of each owner at which it would be reached"]
    remedies: Annotated[tuple[str, ...], "what merging or leaving out would give, in words"] = ()
    counts: Annotated[str, "what `rows` counts"] = "rows"

    @property
    def enough(self) -> str:
        """Rows, with two digits, or an epsilon that would be enough; empty if none is known."""
        ways = []
        if self.rows is not None:
            step = 10 ** max(len(str(self.rows)) - 2, 0)
            ways.append(many(-(-self.rows // step) * step, self.counts))
        if self.epsilon is not None:
            ways.append(f"epsilon {decimal_text(self.epsilon)}")
        return " or ".join(ways)

    @property
    def text(self) -> str:
        """All of it in one line."""
        shown = ""
        if self.strength is not None:
            shown = f" (strength {self.strength:.1f}, {self.least:g} needed)"
        enough = self.enough and f"; about {self.enough} would be enough"
        return ". ".join([f"not estimable: {self.reason}{shown}{enough}", *self.remedies])


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number with its law; or a refusal, and then nothing else.

    ``noise_share`` is the share of its variance that is noise; the rest is sampling.
    """

    name: str
    estimate: float | None = None
    law: Interval | None = None
    bse: float | None = None
    noise_share: float | None = None
    refused: NotEstimable | None = None

    @property
    def pvalue(self) -> float | None:
        """Two-sided p-value of no effect, where that is a question."""
        return None if self.law is None else self.law.pvalue

    @property
    def beyond(self) -> bool:
        """Whether the noise took it beyond what is possible."""
        if self.estimate is None or not isinstance(self.law, Normal | FiellerRatio | ShareSet):
            return False
        return not self.law.lowest - _ROUNDING <= self.estimate <= self.law.highest + _ROUNDING

    def conf_int(self, alpha: float = 0.05) -> tuple[float, float] | None:
        """Return the interval that misses the truth with probability ``alpha``."""
        return None if self.law is None else self.law.interval(alpha)


def normal_estimate(name: str, found: Linear, sampling: float, **law: Any) -> Estimate:
    """Estimate one number from its noise and sampling variance; ``law`` is `Normal`'s."""
    value, noise = float(found.values[0]), float(found.noise.variance[0])
    total = noise + sampling
    se, share = total**0.5, noise / total if total else 0.0
    excess = float(found.noise.kurtosis[0]) * share**2
    return Estimate(name, value, Normal(value, se, excess, **law), se, share)


def ratio_estimate(
    name: str,
    found: Linear,
    sampling: Array,
    *,
    offset: float = 0.0,
    factor: float = 1.0,
    **law: Any,
) -> Estimate:
    """Estimate ``offset + factor A / B`` of numbers (A, B) and their sampling covariance (2, 2).

    Where noise takes B to 0 or below there is no estimate, and the interval is all that is
    possible.
    """
    known = found.values[1] > 0
    ratio = float(found.values[0] / found.values[1]) if known else 0.0
    line, covariance = np.array([[1.0, -ratio]]), found.noise.covariance + sampling
    against, total = found.noise.combine(line), float((line @ covariance @ line.T)[0, 0])
    share = float(against.variance[0]) / total if total > 0 else 0.0
    scale = np.array([[factor, offset], [0, 1]])
    fieller = FiellerRatio(
        *(scale @ found.values, scale @ covariance @ scale.T),
        float(against.kurtosis[0]) * share**2,
        **law,
    )
    if not known:
        return Estimate(name, law=fieller)
    return Estimate(name, offset + factor * ratio, fieller, fieller.se, share)


@dataclass(frozen=True, slots=True)
class EstimateDocument:
    """An estimate, or its refusal: the others are null then."""

    name: Annotated[str, "what is estimated"]
    estimate: Annotated[float | None, "the number"]
    bse: Annotated[float | None, "standard error, noise and sampling together"]
    low: Annotated[float | None, "lower end of the interval; null if there is none"]
    high: Annotated[float | None, "upper end of the interval; null if there is none"]
    pvalue: Annotated[float | None, "two-sided p-value of no effect, adjusted if asked"]
    unbounded: Annotated[
        Literal["above", "below", "both"] | None, "ends that the interval does not have"
    ]
    noise: Annotated[float | None, "share of the variance that is noise"]
    sampling: Annotated[float | None, "share of the variance that is sampling"]
    refusal: Annotated[NotEstimable | None, "why there is no estimate"]
    attribute: Annotated[str | None, "attribute of the name, where the name is one variable's"]
    label: Annotated[str | None, "its label, where the variable is one"]
    against: Annotated[str | None, "the only label of the attribute that the answer leaves out"]


@dataclass(frozen=True, slots=True)
class AttributeDocument:
    """An attribute that questions may name."""

    name: Annotated[str, "its name"]
    labels: Annotated[tuple[str, ...] | None, "its labels; null for a number"]
    lower: Annotated[str | None, "lower bound of a number; null for labels"]
    upper: Annotated[str | None, "upper bound of a number; null for labels"]
    unit: Annotated[str | None, "unit of a number, in words"]


@dataclass(frozen=True, slots=True)
class CellDocument:
    """Where an estimate stands in Table 1."""

    variable: Annotated[str, "the attribute; `rows` for numbers of rows"]
    statistic: Annotated[str, "`n`, `share`, `mean`, `SD`, `median` or a quartile"]
    label: Annotated[str, "the label whose share it is; empty for others"]
    group: Annotated[str, "`all`, attribute=label of a group, or `difference`"]


@dataclass(frozen=True, slots=True)
class AnswerDocument:
    """Answer to one question of a released result."""

    title: Annotated[str, "the question; of people, it says `by person`"]
    scope: Annotated[str, "what the intervals are about"]
    rows: Annotated[int, "rows of all owners"]
    owners: Annotated[int, "owners that took part"]
    epsilon: Annotated[str, "epsilon of the release; the answer costs nothing more"]
    delta: Annotated[str, "delta of the release"]
    relation: Annotated[str, "relation of neighbouring tables"]
    alpha: Annotated[float, "probability that an interval misses the truth"]
    adjustment: Annotated[str | None, "adjustment for several estimates at once"]
    assumptions: Annotated[tuple[str, ...], "what the intervals rest on, in words"]
    estimates: Annotated[tuple[EstimateDocument, ...], "the numbers"]
    unit: Annotated[str, "what of the rows belongs to one person: `row` or `person`"]
    rows_deviation: Annotated[float, "deviation of the noised number of rows; 0: it is public"]
    study: Annotated[str, "name of the study"]
    study_digest: Annotated[str, "its digest, in hexadecimal"]
    attributes: Annotated[tuple[AttributeDocument, ...], "what questions may name"]
    covariance: Annotated[
        tuple[tuple[float | None, ...], ...] | None,
        "covariance of the estimates, noise and sampling together, in their order; null for one "
        "that is refused, or for the whole where the answer has none",
    ]
    version: Annotated[int, "version of this document"] = 1
    cells: Annotated[
        tuple[CellDocument, ...] | None, "of `summary`: the place of each estimate, in their order"
    ] = None
    family: Annotated[int | None, "estimates that an adjustment is for; null: the answer's"] = None
    ratios: Annotated[bool, "whether the estimates are ratios, which say nothing at 1"] = False
    counts: Annotated[str, "what `rows` counts: `rows`, `people` or `weighted rows`"] = "rows"


@dataclass(frozen=True, slots=True)
class AnswersDocument:
    """Answers to all questions of a study."""

    questions: Annotated[tuple[str, ...], "the study's questions"]
    answers: Annotated[tuple[AnswerDocument, ...], "an answer to each"]
    version: Annotated[int, "version of this document"] = 1


@dataclass(frozen=True, slots=True)
class QuestionFamily:
    """All estimates of a study's questions: their number, and p-values, 1 where one is refused."""

    size: int
    pvalues: Array


@dataclass(frozen=True)
class EstimateAnswer:
    """Estimates that answer one question; ``len(answer.names)`` is k.

    Attributes
    ----------
    title
        The question.
    estimates
        k numbers or refusals.
    moments
        What they are computed from.
    scope
        What the intervals are about, in words.
    assumptions
        What they rest on, in words.
    alpha, adjustment
        Probability that an interval misses the truth, and ``bonferroni``, ``holm`` or None.
    covariance
        Of the estimates, noise and sampling together, shape (k, k); NaN where refused. None where
        the law is no normal one of all together.
    ratios
        Whether the estimates are ratios, which say nothing at 1.
    family
        What an adjustment is for: by default the answer's own estimates.
    """

    title: str
    estimates: tuple[Estimate, ...]
    moments: ReconciledMoments
    scope: str
    assumptions: tuple[str, ...]
    alpha: float = 0.05
    adjustment: Literal["bonferroni", "holm"] | None = None
    covariance: Array | None = None
    family: QuestionFamily | None = None
    ratios: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """What is estimated."""
        return tuple(each.name for each in self.estimates)

    @property
    def params(self) -> Array:
        """Estimates, shape (k,); NaN where refused."""
        return _floats(each.estimate for each in self.estimates)

    @property
    def bse(self) -> Array:
        """Standard errors, shape (k,); NaN where refused."""
        return _floats(each.bse for each in self.estimates)

    @property
    def pvalues(self) -> Array:
        """Two-sided p-values, shape (k,), adjusted as asked; NaN where there is none."""
        values = _floats(each.pvalue for each in self.estimates)
        tested = np.isfinite(values)
        tests = np.sort(values[tested] if self.family is None else self.family.pvalues)
        if self.adjustment == "bonferroni":
            return np.minimum(values * len(tests), 1)
        if self.adjustment == "holm":
            steps = np.maximum.accumulate(tests * (len(tests) - np.arange(len(tests))))
            places = np.searchsorted(tests, values[tested], side="right") - 1
            values[tested] = np.minimum(steps[places], 1)
        return values

    def conf_int(self, alpha: float | None = None) -> Array:
        """Return the intervals, shape (k, 2); NaN where there is none.

        They miss the truth with probability ``alpha`` each or, with an adjustment, any of them.

        >>> asked.mean("age", by="sex").conf_int(alpha=0.1).round(1)
        array([[43.1, 45.2],
               [44.5, 46.6]])
        """
        level = self.alpha if alpha is None else alpha
        if self.adjustment is not None:  # Holm's has no intervals of its own
            given = sum(each.refused is None for each in self.estimates)
            level /= max(1, given if self.family is None else self.family.size)
        ends = [each.conf_int(level) or (np.nan, np.nan) for each in self.estimates]
        return np.array(ends, dtype=np.float64).reshape(-1, 2)

    def adjusted(self, method: Literal["bonferroni", "holm"]) -> EstimateAnswer:
        """Return the answer for all estimates at once: Bonferroni's intervals, either's tests.

        >>> asked.mean("age", by="sex").adjusted("bonferroni").conf_int(alpha=0.1).round(1)
        array([[42.9, 45.5],
               [44.3, 46.8]])
        """
        if method not in ("bonferroni", "holm"):
            raise SettingError(f"{method} is no adjustment; take bonferroni or holm")
        return replace(self, adjustment=method)

    def document(self) -> AnswerDocument:
        """Return all values, for JSON.

        >>> found = asked.proportion("ill=yes").document()
        >>> found.rows, found.owners, found.epsilon, [each.name for each in found.estimates]
        (6000, 3, '3', ['ill=yes'])
        """
        rows, terms = [], self.moments.names.terms(self.names)
        for each, term, *numbers in zip(self.estimates, terms, *self._columns, strict=True):
            estimate, bse, low, high, pvalue = map(_value, numbers)
            noise = each.noise_share
            sampling = None if noise is None else max(1 - noise, 0.0)
            rows.append(
                EstimateDocument(
                    *(each.name, estimate, bse, low, high, pvalue, _unbounded(*numbers[2:4])),
                    *(noise, sampling, each.refused, *term),
                )
            )
        of, guarantee = self.moments, (self.moments.epsilon, self.moments.delta)
        return AnswerDocument(
            *(self.name, self.scope, of.n_rows, of.n_owners, *guarantee, of.relation),
            *(self.alpha, self.adjustment, self.assumptions, tuple(rows)),
            *(of.study.table.unit.value, of.rows_deviation, of.study.name, of.study.digest),
            tuple(map(_attribute, of.names.schema.attributes)),
            None
            if self.covariance is None
            else tuple(tuple(map(_value, row)) for row in self.covariance),
            family=None if self.family is None else self.family.size,
            ratios=self.ratios,
            counts=of.study.unit.counts,
        )

    @property
    def name(self) -> str:
        """The question, and that it is of people if their rows count together."""
        by_person = self.moments.study.table.unit is Unit.PERSON
        return f"{self.title}, by person" if by_person else self.title

    def summary(self) -> str:
        """Return the answer as text for people, in lines of at most 80 characters.

        >>> print(asked.mean("age").summary())
        mean of age, for the population that the rows are a sample of
        6000 rows of 3 owners, epsilon 3, delta 0.000000001, replace-one; no charge
             estimate    bse  [0.025  0.975]  noise
        age     44.87  0.337   44.21   45.53    35%
        The owners' rows are a random sample; the owners are not a sample of owners.
        age: below 0 counts as 0, above 100 as 100, a missing value as 50.
        How many rows this concerns is not released, and not in the intervals.
        """
        moments, adjusted = self.moments, "" if self.adjustment is None else f", {self.adjustment}"
        adjusted += "" if self.family is None else f" of all {self.family.size} of the study"
        told = [
            f"{self.name}, {self.scope}{adjusted}",
            f"{moments.rows_text} of {many(moments.n_owners, 'owners')}, "
            f"epsilon {moments.epsilon}, delta {moments.delta}, {moments.relation}; no charge",
        ]
        ends = (f"[{self.alpha / 2:g}", f"{1 - self.alpha / 2:g}]")
        names, refused = [""], list[tuple[str, NotEstimable]]()
        rows: list[tuple[str, ...]] = [("estimate", "bse", *ends, "p", "noise")]
        for each, *numbers, p in zip(self.estimates, *self._columns, strict=True):
            if each.refused is not None:
                refused.append((each.name, each.refused))
                continue
            share = "" if each.noise_share is None else f"{each.noise_share:.0%}"
            shown = ["" if np.isnan(n) else f"{n:.4g}" for n in numbers]
            names.append(each.name)
            chance = "<0.0001" if p < 1e-4 else "" if np.isnan(p) else f"{p:.4f}"
            rows.append((*shown, chance, share))
        table = _aligned(names, rows) if len(rows) > 1 else []
        return "\n".join(
            [*_wrapped(told), *table, *_wrapped([*_refusals(refused), *self.assumptions])]
        )

    def lay_out(self, layout: str) -> str:
        """Return it as ``text``; only a `Summary` has other layouts.

        >>> print(asked.mean("age").lay_out("text").splitlines()[0])
        mean of age, for the population that the rows are a sample of
        """
        if layout != "text":
            raise SettingError(f"{layout} is for a summary")
        return self.summary()

    def to_frame(self) -> pd.DataFrame:
        """Return a ``pandas.DataFrame``, a row for each estimate; NaN where refused.

        >>> asked.proportion("ill").to_frame().drop(columns="refused").round(3)
                 estimate    bse    low   high  pvalue  noise
        ill=no      0.685  0.006  0.673  0.698     NaN  0.101
        ill=yes     0.315  0.006  0.302  0.327     NaN  0.101
        """
        import pandas as pd

        names = ("estimate", "bse", "low", "high", "pvalue")
        frame = pd.DataFrame(dict(zip(names, self._columns, strict=True)), index=list(self.names))
        frame["noise"] = _floats(each.noise_share for each in self.estimates)
        frame["refused"] = [None if e.refused is None else e.refused.text for e in self.estimates]
        return frame

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()

    @property
    def _columns(self) -> Sequence[Array]:
        return [self.params, self.bse, *self.conf_int().T, self.pvalues]


def answer_line(answer: EstimateAnswer) -> str:
    """Return a question with its estimates and intervals, in one line."""
    shown = [
        f"{one.name} not estimable"
        if one.refused is not None
        else f"{one.name} {'' if one.estimate is None else f'{one.estimate:.4g} '}"
        f"[{low:.4g}, {high:.4g}]"
        for one, (low, high) in zip(answer.estimates, answer.conf_int(), strict=True)
    ]
    return f"{answer.name}: {'; '.join(shown)}"


def family_lines(answers: Sequence[EstimateAnswer]) -> list[str]:
    """Return what says the answers to a study's own questions; nothing where it has none."""
    told = "The study's questions, with 95 % for all of their intervals together:"
    return [told, *map(answer_line, answers)] if answers else []


def as_family(
    answers: Sequence[EstimateAnswer], method: Literal["bonferroni", "holm"]
) -> list[EstimateAnswer]:
    """Adjust several answers for all their estimates at once; refused ones count, too."""
    every = [each for answer in answers for each in answer.estimates]
    values = [1.0 if each.refused is not None else each.pvalue for each in every]
    family = QuestionFamily(len(every), _floats(each for each in values if each is not None))
    return [as_registered(replace(each.adjusted(method), family=family)) for each in answers]


def as_registered(answer: EstimateAnswer) -> EstimateAnswer:
    """Return an answer to one of the study's questions: it is not exploratory."""
    told = tuple(each for each in answer.assumptions if each != EXPLORATORY)
    return replace(answer, assumptions=told)


def _attribute(attribute: Attribute) -> AttributeDocument:
    labels = list_labels(attribute)
    if labels is not None or not isinstance(attribute, Numeric) or attribute.scale is not None:
        return AttributeDocument(attribute.name, labels, None, None, None)
    lower, upper = map(attribute.format_value, attribute.bounds)
    return AttributeDocument(attribute.name, None, lower, upper, attribute.unit)


def _floats(values: Iterable[float | None]) -> Array:
    return np.array([np.nan if each is None else each for each in values], dtype=np.float64)


def _value(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def _unbounded(low: float, high: float) -> Literal["above", "below", "both"] | None:
    """Return which ends of an interval are infinite."""
    if np.isposinf(high):
        return "both" if np.isneginf(low) else "above"
    return "below" if np.isneginf(low) else None


def _wrapped(texts: Iterable[str]) -> list[str]:
    return [
        line
        for each in texts
        for line in wrap(each, _WIDTH, break_on_hyphens=False, subsequent_indent=_deeper(each))
    ]


def _refusals(refused: Sequence[tuple[str, NotEstimable]]) -> Iterator[str]:
    """Yield refusals: what several share, once; a line for each whose numbers differ."""
    found = dict[tuple[str, ...], list[tuple[str, NotEstimable]]]()
    for name, why in refused:
        found.setdefault((why.reason, *why.remedies), []).append((name, why))
    for same in found.values():
        first = same[0][1]
        if all(why.text == first.text for _, why in same):
            yield f"{', '.join(name for name, _ in same)}: {first.text}"
            continue
        yield f"not estimable: {first.reason}; strengths, and what would make them {first.least:g}:"
        yield from (f"  {name}: {why.strength or 0:.1f}, {why.enough}" for name, why in same)


def _deeper(line: str) -> str:
    return "    " if line.startswith(" ") else ""


def _aligned(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return names beside columns, without empty columns; a long name takes several lines."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    left, lines = _WIDTH - sum(widths) - 2 * len(widths), list[str]()
    left = min(left, max(map(len, names)))
    for name, row in zip(names, zip(*columns, strict=True), strict=True):
        *above, last = wrap(name, left, subsequent_indent="  ", break_on_hyphens=False) or [""]
        numbers = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
        lines += [*above, "  ".join([last.ljust(left), *numbers]).rstrip()]
    return lines
