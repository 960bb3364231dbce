"""Table 1: each attribute of a study in numbers, for all rows and for each group.

Labels have counts and shares; numbers have mean and standard deviation in one row, as journals
print them, median and quartiles. Counts of rows are of these rows; all else is about what the
answer's scope says. With two groups there is a column of differences, the second group less the
first.

A standard deviation of a group needs a table of the number beside its labels
(`dppca.common.analysis.estimates.spreads`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import floor, isfinite, isinf, log10
from typing import TYPE_CHECKING

import numpy as np

from dppca.common.analysis.estimates.answers import (
    AnswerDocument,
    CellDocument,
    Estimate,
    EstimateAnswer,
)
from dppca.common.analysis.estimates.intervals import Interval, Normal
from dppca.common.analysis.estimates.means import (
    estimate_difference,
    estimate_groups,
    estimate_mean,
    estimate_shares,
    group_name,
)
from dppca.common.analysis.estimates.quantiles import QUARTILES, estimate_quantiles
from dppca.common.analysis.estimates.release import ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.share_sets import ShareSet
from dppca.common.analysis.estimates.shares import ratio_of_shares
from dppca.common.analysis.estimates.spreads import estimate_spread, estimate_spreads
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.tables import html_table, text_table
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.attributes import Ordinal, Score, list_labels

if TYPE_CHECKING:
    import pandas as pd

LAYOUTS = ("text", "html", "latex", "csv")
_DASH = "–"
_QUARTILE_NAMES = ("first quartile", "median", "third quartile")
_LATEX = str.maketrans(
    {
        **{each: f"\\{each}" for each in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "–": "--",
    }
)


@dataclass(frozen=True, slots=True)
class Times:
    """A law in other units: ``factor`` times as large."""

    law: Interval
    factor: float

    @property
    def pvalue(self) -> float | None:
        """The same."""
        return self.law.pvalue

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the ends."""
        low, high = self.law.interval(alpha)
        return self.factor * low, self.factor * high


@dataclass(frozen=True, repr=False)
class Summary(EstimateAnswer):
    """Table 1: an answer whose estimates stand in rows and columns.

    ``cells`` says the place of each estimate; ``left_out`` says in words what has no row.
    """

    cells: tuple[CellDocument, ...] = ()
    left_out: tuple[str, ...] = ()

    def document(self) -> AnswerDocument:
        """Return all values, for JSON."""
        return replace(super().document(), cells=self.cells)

    def to_frame(self) -> pd.DataFrame:
        """Return a ``pandas.DataFrame``, a row for each estimate, with its place in the table."""
        frame = super().to_frame()
        for place, name in enumerate(("variable", "statistic", "label", "group")):
            frame.insert(place, name, [getattr(each, name) for each in self.cells])
        return frame.reset_index(drop=True)

    def summary(self) -> str:
        """Return the table as text."""
        head, rows, notes = self._grid()
        lines = text_table(head, rows, width=None)
        about = f"{self.name}, {self.scope}: estimates with {1 - self.alpha:.0%} intervals"
        adjusted = "" if self.adjustment is None else f", {self.adjustment}"
        told = [*notes, *self.left_out, *self.assumptions]
        return "\n".join([about + adjusted, self._released, *lines, *told])

    def lay_out(self, layout: str) -> str:
        """Return the table as ``text``, ``html``, ``latex`` or ``csv``; `SettingError` else."""
        made: dict[str, Callable[[], str]] = {
            "text": self.summary,
            "html": self.to_html,
            "latex": self.to_latex,
            "csv": self.to_csv,
        }
        if layout not in made:
            raise SettingError(f"{layout} is no layout; take {', '.join(LAYOUTS)}")
        return made[layout]()

    def to_html(self) -> str:
        """Return the table as HTML, with its notes below."""
        head, rows, notes = self._grid()
        told = [self._released, *notes, *self.left_out]
        below = html_table([], [[each] for each in told])
        return html_table(head, rows, caption=f"{self.name}, {self.scope}") + below

    def to_latex(self) -> str:
        """Return the table as LaTeX that needs no package."""
        head, rows, notes = self._grid()
        lines = [" & ".join(each.translate(_LATEX) for each in row) + r" \\" for row in rows]
        names = " & ".join(each.translate(_LATEX) for each in head) + r" \\"
        told = [self._released, *notes, *self.left_out]
        below = [f"\\par {each.translate(_LATEX)}" for each in told]
        columns = "l" * len(head)
        return "\n".join(
            [
                rf"\begin{{tabular}}{{{columns}}}",
                *(r"\hline", names, r"\hline", *lines, r"\hline"),
                r"\end{tabular}",
                *below,
            ]
        )

    def to_csv(self) -> str:
        """Return the numbers as CSV, a row for each estimate."""
        sink, numbers = io.StringIO(), ("estimate", "bse", "low", "high", "pvalue", "noise")
        writer = csv.writer(sink, lineterminator="\n")
        places = ("variable", "statistic", "label", "group")
        writer.writerow((*places, *numbers, "refusal"))
        for cell, one in zip(self.cells, self.document().estimates, strict=True):
            known = (getattr(one, each) for each in numbers)
            refusal = "" if one.refusal is None else one.refusal.text
            writer.writerow((*(getattr(cell, each) for each in places), *known, refusal))
        return sink.getvalue()

    @property
    def _released(self) -> str:
        of = self.moments
        return (
            f"{of.rows_text} of {many(of.n_owners, 'owners')}, epsilon {of.epsilon}, "
            f"delta {of.delta}, {of.relation}; no charge"
        )

    def _grid(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Return the head, the rows and the notes below."""
        columns = list(dict.fromkeys(each.group for each in self.cells))
        ends, found = self.conf_int(), dict[tuple[str, str, str], dict[str, str]]()
        notes = dict[str, str]()
        spread = {each.variable for each in self.cells if each.statistic == "SD"}
        for cell, one, (low, high) in zip(self.cells, self.estimates, ends, strict=True):
            of_both = cell.statistic in ("mean", "SD") and cell.variable in spread
            statistic = "mean (SD)" if of_both else cell.statistic
            row = found.setdefault((cell.variable, statistic, cell.label), {})
            if one.refused is not None:
                mark = notes.setdefault(one.refused.reason, chr(ord("a") + len(notes) % 26))
                text = f"{_DASH} ({mark})"
            else:
                counted = _count(one, self.moments.n_rows) if cell.statistic == "share" else ""
                text = counted + _shown(one.estimate, low, high, cell)
            if cell.statistic == "SD":  # it stands behind the mean, where there is one
                text = f"{row.get(cell.group, '')} ({text})".strip()
            row[cell.group] = text
        rows, before = [], ""
        for (variable, statistic, label), values in found.items():
            name = f"{variable}, {label or statistic}" if label or statistic else variable
            if variable == before and label:
                name = f"  {label}"
            before = variable
            rows.append([name, *(values.get(column, "") for column in columns)])
        told = [f"({mark}) {reason}." for reason, mark in notes.items()]
        return ["", *columns], rows, told


def _count(one: Estimate, n_rows: int) -> str:
    """Return the number of rows of a share, also of one in a group; nothing of a difference."""
    return f"{one.law.numbers[0] * n_rows:,.0f}, " if isinstance(one.law, ShareSet) else ""


def _shown(estimate: float | None, low: float, high: float, cell: CellDocument) -> str:
    """Return a cell's text: an estimate with its interval."""
    factor = 100.0 if cell.statistic == "share" else 1.0
    known = None if estimate is None else factor * estimate
    low, high = factor * low, factor * high
    width = high - low
    digits = 0
    if isfinite(width) and width > 0:
        digits = min(max(0, 1 - floor(log10(width / 2))), 6)
    elif known is not None and not float(known).is_integer():
        digits = 3
    if cell.statistic == "n":
        digits = 0

    def text(value: float) -> str:
        if isinf(value):
            return "no limit"
        shown = f"{value:,.{digits}f}"
        return shown.removeprefix("-") if not float(shown.replace(",", "")) else shown

    interval = f"[{text(low)}, {text(high)}]"
    if known is None:
        return interval
    return f"{text(known)}{' %' if factor > 1 else ''} {interval}"


ALL = "all"


def summarize(
    moments: ReconciledMoments,
    scope: EstimateScope,
    attributes: Sequence[int],
    by: int | None,
) -> tuple[list[Estimate], list[CellDocument], list[str]]:
    """Return the estimates of Table 1, their places, and what has no row, in words."""
    groups = [] if by is None else list(moments.names.labels[by] or ())
    if by is not None and not groups:
        name = moments.study.table.attributes[by].name
        raise SettingError(f"{name} has no labels and no cells to make groups of")
    made = _Table(moments, scope, by, groups)
    made.add_sizes()
    for attribute in attributes:
        if attribute != by:
            made.add(attribute)
    return made.estimates, made.cells, made.left_out


class _Table:
    def __init__(
        self,
        moments: ReconciledMoments,
        scope: EstimateScope,
        by: int | None,
        groups: Sequence[str],
    ) -> None:
        self._moments, self._scope, self._by = moments, scope, by
        name = "" if by is None else moments.study.table.attributes[by].name
        self._groups = [f"{name}={each}" for each in groups]
        self.estimates: list[Estimate] = []
        self.cells: list[CellDocument] = []
        self.left_out: list[str] = []

    def add_sizes(self) -> None:
        """Add the numbers of rows."""
        n, deviation = self._moments.n_rows, self._moments.rows_deviation
        law = Normal(float(n), deviation, lowest=0.0)
        self._put("rows", "n", "", ALL, Estimate("n", float(n), law, deviation))
        if self._by is None:
            return
        alone = EstimateScope(these_rows=True)
        codes = range(len(self._groups))
        try:
            found = estimate_shares(self._moments, alone, self._by, codes)
        except SettingError as error:
            self.left_out.append(f"Sizes of groups: {error}.")
            return
        for group, each in zip(self._groups, found, strict=True):
            self._put("rows", "n", "", group, _times(each, n, f"n where {group}"))

    def add(self, attribute: int) -> None:
        """Add the rows of an attribute."""
        own = self._moments.study.table.attributes[attribute]
        if isinstance(own, Numeric) and not isinstance(own, Ordinal):
            self._add_number(attribute, own)
        elif list_labels(own):
            self._add_labels(attribute)

    def _add_labels(self, attribute: int) -> None:
        labels = self._moments.names.labels[attribute] or ()
        name = self._moments.study.table.attributes[attribute].name
        codes = range(len(labels))
        try:
            found = estimate_shares(self._moments, self._scope, attribute, codes)
        except SettingError as error:
            self.left_out.append(f"{name}: {error}.")
            return
        grouped = list(self._by_group(name, lambda: self._shares(attribute)))
        for code, label in enumerate(labels):
            self._put(name, "share", label, ALL, found[code])
            for group, each in grouped:
                self._put(name, "share", label, group, each[code])
            if len(self._groups) == 2 and grouped:
                with suppress(SettingError):
                    self._put(
                        *(name, "share", label, "difference"),
                        self._difference(self._moments.names.indicator(attribute, code)),
                    )

    def _shares(self, attribute: int) -> list[list[Estimate]]:
        """Return the shares of labels in each group, (group, label)."""
        assert self._by is not None  # noqa: S101 - there are groups
        size, groups = len(self._moments.names.labels[attribute] or ()), len(self._groups)
        masks, of_groups = np.eye(size, dtype=bool), np.eye(groups, dtype=bool)
        every = np.ones(size, dtype=bool)
        found = self._moments.shares(
            [{self._by: own, attribute: mask} for own in of_groups for mask in (*masks, every)]
        )
        rows = self._scope.rows(self._moments)
        return [
            [
                ratio_of_shares(
                    f"{group_name(self._moments, attribute, code)} where {group}",
                    found.combine(_pick(len(found.values), start + code, start + size)),
                    rows,
                )
                for code in range(size)
            ]
            for group, start in zip(
                self._groups, range(0, groups * (size + 1), size + 1), strict=True
            )
        ]

    def _add_number(self, attribute: int, own: Numeric) -> None:
        name = own.name
        if own.name not in self._moments.study.table.products_of_bins:
            self._add_moments(own)
        for statistic, level in zip(_QUARTILE_NAMES, QUARTILES, strict=True):
            try:
                found = estimate_quantiles(self._moments, self._scope, attribute, [level])
            except SettingError as error:
                self.left_out.append(f"{name}, quartiles: {error}.")
                break
            self._put(name, statistic, "", ALL, found[0])
            for group, each in self._by_group(
                f"{name}, quartiles",
                lambda level=level: [  # type: ignore[misc]
                    [one]
                    for one in estimate_quantiles(
                        self._moments, self._scope, attribute, [level], self._by
                    )
                ],
            ):
                self._put(name, statistic, "", group, each[0])

    def _add_moments(self, own: Numeric) -> None:
        name, place = own.name, "mean"
        if own.score is Score.LOG:
            self.left_out.append(f"{name}: its mean is on a logarithmic scale; see its median.")
            return
        try:
            variable = self._moments.names.variable(name)
            self._put(name, place, "", ALL, estimate_mean(self._moments, self._scope, variable))
        except SettingError as error:
            self.left_out.append(f"{name}, mean: {error}.")
            return
        for group, each in self._by_group(
            f"{name}, mean",
            lambda: [
                [one]
                for one in estimate_groups(self._moments, self._scope, variable, self._by or 0)
            ],
        ):
            self._put(name, place, "", group, each[0])
        if len(self._groups) == 2:
            with suppress(SettingError):
                self._put(name, place, "", "difference", self._difference(variable))
        if not variable.gappy:
            self._put(name, "SD", "", ALL, estimate_spread(self._moments, self._scope, variable))
            for group, each in self._by_group(
                f"{name}, SD", lambda: self._spreads(variable.attribute)
            ):
                self._put(name, "SD", "", group, each[0])

    def _spreads(self, attribute: int) -> list[list[Estimate]]:
        found = estimate_spreads(self._moments, self._scope, attribute, self._by)
        return [[each] for each in found]

    def _difference(self, variable: Variable) -> Estimate:
        assert self._by is not None  # noqa: S101 - there are two groups
        return estimate_difference(self._moments, self._scope, variable, self._by, (1, 0))

    def _by_group(
        self, name: str, ask: Callable[[], list[list[Estimate]]]
    ) -> Iterator[tuple[str, list[Estimate]]]:
        """Yield the estimates of each group; what was not released is said once."""
        if self._by is None:
            return
        try:
            yield from zip(self._groups, ask(), strict=True)
        except SettingError as error:
            told = f"{name} by group: {error}."
            if told not in self.left_out:
                self.left_out.append(told)

    def _put(self, variable: str, statistic: str, label: str, group: str, found: Estimate) -> None:
        self.cells.append(CellDocument(variable, statistic, label, group))
        self.estimates.append(found)


def _times(one: Estimate, factor: float, name: str) -> Estimate:
    law = None if one.law is None else Times(one.law, factor)
    known, bse = (None if each is None else factor * each for each in (one.estimate, one.bse))
    return replace(one, name=name, estimate=known, law=law, bse=bse)


def _pick(size: int, above: int, below: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    weights = np.zeros((2, size))
    weights[0, above] = weights[1, below] = 1
    return weights
