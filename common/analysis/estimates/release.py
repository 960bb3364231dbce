"""What a result has released, as numbers with the exact law of their noise.

Moments are reconciled (`dppca.common.analysis.estimates.noise`). Counts of histograms, tables and
trees are shares of the rows in cells that add up to one; each cell's noise has a standard deviation
of s / h or s / t. A share that several of them give, such as a label's, is combined by inverse
variances.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, reduce
from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np

from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.noise import (
    Array,
    EntryNoise,
    MomentNoise,
    Noise,
    border,
    form,
)
from dppca.common.analysis.estimates.variables import Codes, Names
from dppca.common.analysis.estimators.relations import least_epsilon
from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.moments import unpack, unpack_histograms, unpack_tables
from dppca.common.kernel.privacy.composition import compose_guarantee
from dppca.common.kernel.privacy.counted_rows import count_deviation
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.kernel.schema.partitions import TableCells
from dppca.common.kernel.study import Study

if TYPE_CHECKING:
    from dppca.common.kernel.attestation.results import Published

Event = Mapping[int, Codes]
"""Rows whose attributes have one of some labels, or cells: codes by the attribute's index."""
_EXACT_BELOW = 10.0
"""Width, in steps, below which the variance of the discrete law is added up."""
_REACH = 500  # steps, beyond which a law so narrow has nothing
_ABSENT = 0.1  # share of values that a forecast takes as missing


@dataclass(frozen=True)
class Linear:
    """Numbers with their noise: values (k,)."""

    values: Array
    noise: Noise

    def combine(self, weights: Array) -> Linear:
        """Return linear combinations; ``weights`` has shape (r, k)."""
        return Linear(weights @ self.values, self.noise.combine(weights))

    def part(self, place: int, size: int = 1) -> Linear:
        """Return some of the numbers, from a place on."""
        own, noise = slice(place, place + size), self.noise
        return Linear(self.values[own], replace(noise, contributions=noise.contributions[own]))


def bilinear(block: Block, left: Array, right: Array) -> Linear:
    """Return ``u' G v`` of rows u and v of ``left`` and ``right``, of shapes (k, b) or (b,)."""
    left, right = np.broadcast_arrays(np.atleast_2d(left), right)
    values = np.einsum("ki,ij,kj->k", left, block.matrix, right)
    return Linear(values, block.noise(form(left, right)))


@dataclass(frozen=True)
class Counts:
    """Shares of the rows in cells, an axis for each of ``attributes``; None for other axes.

    ``parts`` has, for each axis that is parts of a number's coded range, its index and their
    number. ``continued`` counts are of a study that continues the one of the moments.
    """

    attributes: tuple[int | None, ...]
    shares: Array
    entry: EntryNoise
    parts: tuple[tuple[int, int] | None, ...] = ()
    continued: bool = False

    def find(self, events: Sequence[Event]) -> Linear:
        """Return the shares of events, whose attributes are among these."""
        masks = []
        for event in events:
            mask = np.ones(self.shares.shape)
            for axis, attribute in enumerate(self.attributes):
                if attribute is not None and attribute in event:
                    shape = [1] * mask.ndim
                    shape[axis] = -1
                    mask = mask * event[attribute].reshape(shape)
            masks.append(mask.ravel())
        weights = np.array(masks)
        centred = weights - weights.mean(axis=1, keepdims=True)
        values = centred @ self.shares.ravel() + weights.mean(axis=1)  # all cells add up to one
        excess = np.full(weights.shape[1], self.entry.excess)
        noise = Noise(centred * self.entry.deviation, np.ones_like(excess), excess)
        moved = centred @ self.shares.ravel()
        return Linear(values, noise.with_rows(moved, self.entry, continued=self.continued))


@dataclass(frozen=True)
class ReconciledMoments:
    """Released moments and counts of a study, and of the one that it continues.

    Attributes
    ----------
    study
        The study that released the moments.
    n_rows, n_owners
        Rows and owners that took part.
    matrix
        Reconciled moments of (1, coded row), shape (p + 1, p + 1); columns count from 1. None if
        only counts are known.
    counts
        Histograms, tables, and the target's parts in trees.
    epsilon, delta, relation
        Guarantee of all releases together, as text.
    published
        Study and result of the moments; None in a forecast.
    """

    study: Study
    n_rows: int
    n_owners: int
    noise: MomentNoise
    calibration: Calibration
    matrix: Array | None
    counts: tuple[Counts, ...]
    epsilon: str
    delta: str
    relation: str
    published: Published | None = None

    @cached_property
    def names(self) -> Names:
        """Attributes and labels by their names."""
        return Names(self.study.table)

    @property
    def rows_deviation(self) -> float:
        """Standard deviation of the number of rows, where it is noised; else 0."""
        return self.noise.entry.of_rows * self.n_rows

    @property
    def rows_text(self) -> str:
        """Number of rows or people, in words."""
        number = many(self.n_rows, self.study.unit.counts)
        if not self.rows_deviation:
            return number
        return f"about {number} (by noise off by {self.rows_deviation:.3g})"

    @property
    def seed(self) -> int:
        """Seed of simulations: public, from the study's digest."""
        return int(self.study.digest[:16], 16)

    def block(self, attributes: Sequence[int]) -> Block:
        """Return the moments of some attributes; `SettingError` if there are none."""
        if self.matrix is None or not self.study.table.layout.with_sums:
            without = "no sums" if self.matrix is not None else "neither sums nor products"
            raise SettingError(f"study {self.study.name} released {without} to compute this of")
        return Block.of(self.noise, attributes, self.matrix)

    def shares(self, events: Sequence[Event]) -> Linear:
        """Return shares of the rows, of events of the same one or two attributes."""
        found = list(self._sources(events))
        if not found:
            asked = [self.study.table.attributes[each] for each in events[0]]
            numbers = [each.name for each in asked if list_labels(each) is None]
            instead = f": ask for a mean, `correlation` or `ols` of {' and '.join(numbers)}"
            raise SettingError(
                f"study {self.study.name} did not count rows by "
                f"{' and '.join(each.name for each in asked)}: it released neither products of "
                f"labels, nor a histogram or table of them{instead if numbers else ''}"
            )
        return combine(found)

    def _sources(self, events: Sequence[Event]) -> Iterator[Linear]:
        attributes = set(events[0])
        if self.matrix is not None and self.study.table.layout.with_sums:
            block = Block.of(self.noise, attributes, self.matrix)
            pairs = []
            for event in events:
                vectors = [self.names.vector(block, each, codes) for each, codes in event.items()]
                known = [vector for vector in vectors if vector is not None]
                if len(known) == len(attributes):
                    pairs.append((block.unit(0) if len(known) == 1 else known[1], known[0]))
            if len(pairs) == len(events):
                left, right = (np.array(each) for each in zip(*pairs, strict=True))
                yield bilinear(block, left, right)
        for counts in self.counts:
            if attributes <= set(counts.attributes):
                yield counts.find(events)

    def needed(self, aim: float, noise: float, sampling: float = 0.0) -> tuple[int, Decimal | None]:
        """Return the rows, and the epsilon, at which a deviation would be ``aim``.

        ``noise`` and ``sampling`` are its variances now. The epsilon is None if no noise were not
        enough, or there is none.
        """
        goal = aim**2
        factor = (sampling + sqrt(sampling**2 + 4 * noise * goal)) / (2 * goal)
        rows = ceil(self.n_rows * factor)
        law = self.calibration.law
        if not goal > sampling or not noise:
            return rows, None
        width = law.width * sqrt((goal - sampling) / noise)
        return rows, least_epsilon(self.calibration, width)


def combine(found: Sequence[Linear]) -> Linear:
    """Combine independent sources of the same numbers by the inverse of their mean variance."""
    variances = np.array([each.noise.variance.mean() for each in found])
    if not variances.all():  # one is exact
        return found[int(np.argmin(variances))]
    weights = 1 / variances / (1 / variances).sum()
    parts = [
        each.combine(weight * np.eye(len(each.values)))
        for each, weight in zip(found, weights, strict=True)
    ]
    values = np.sum([each.values for each in parts], axis=0)
    return Linear(values, reduce(Noise.beside, (each.noise for each in parts)))


def released_moments(published: Published) -> ReconciledMoments:
    """Return what a study has released, and the study that it continues, if that is known."""
    result = published.result
    rounds = [published] if result.first is None else [result.first, published]
    base, header, counts = rounds[0], result.header, list[Counts]()
    for each in rounds:
        study, noised = each.study, each.result
        entry = _cell_noise(study, calibrate(study), noised.header.owner_rows)
        histograms = unpack_histograms(noised.pooled, noised.header.n_rows, study.table.layout)
        tables = unpack_tables(noised.pooled, noised.header.n_rows, study.table.layout)
        made = _counts(study, [own for own in histograms if own is not None], tables, entry)
        counts += [replace(own, continued=each is not base) for own in made]
    study, noised, layout = base.study, base.result, base.study.table.layout
    owner_rows = noised.header.owner_rows
    noise = MomentNoise(layout, _entry_noise(study, calibrate(study), owner_rows))
    matrix = None
    if layout.with_products:
        mean, second = unpack(noised.pooled, noised.header.n_rows, layout)
        matrix = noise.reconcile(
            border(np.zeros(layout.n_columns) if mean is None else mean, second)
        )
    return ReconciledMoments(
        *(study, sum(owner_rows), len(owner_rows), noise, calibrate(study), matrix, tuple(counts)),
        *(header.epsilon, header.delta, header.relation, base),
    )


def expected_moments(
    study: Study, calibration: Calibration, owner_rows: Sequence[int]
) -> ReconciledMoments:
    """Return what a study would release if values were spread evenly and without relations.

    The numbers have no noise, but its law: estimates of them are forecasts of standard errors. Of
    numbers that may be missing, a tenth is.
    ``calibration`` is any of the study's schema; ``owner_rows`` are rows of each owner.
    """
    layout, entry = study.table.layout, _entry_noise(study, calibration, owner_rows)
    noise = MomentNoise(layout, entry)
    entry = _cell_noise(study, calibration, owner_rows)
    absent = noise.of_mean == 0.5
    mean = np.where(noise.label, 1 / noise.n_labels, absent * _ABSENT / 2)[1:]
    second = np.outer(mean, mean)
    own = np.where(noise.label, 1 / noise.n_labels, np.where(noise.numeric, 1 / 12, 1 / 4))[1:]
    own[absent[1:]] = _ABSENT / 4
    np.fill_diagonal(second, own)
    histograms = [np.full(cells, 1 / cells) for _, cells in layout.histograms]
    tables = [np.full(cells, 1 / cells) for cells in layout.tables]
    guarantee = compose_guarantee(study, calibration)
    return ReconciledMoments(
        *(study, sum(owner_rows), len(owner_rows), noise, calibration),
        noise.reconcile(border(mean, second)) if layout.with_products else None,
        tuple(_counts(study, histograms, tables, entry)),
        *(guarantee.epsilon, guarantee.delta, calibration.sensitivity.relation.value),
    )


def _entry_noise(study: Study, noise: Calibration, owner_rows: Sequence[int]) -> EntryNoise:
    """Noise of an entry; of a narrow law, with the variance of whole steps."""
    law, mechanisms = noise.law, noise.mechanisms(len(owner_rows))
    layout, whole_steps = study.table.layout, 1.0
    deviation = entry_noise(
        layout, deviation=law.deviation, owner_rows=owner_rows, mechanisms=mechanisms
    )
    if law.width < _EXACT_BELOW and not law.is_joint:
        steps, cdf = np.arange(-_REACH, _REACH + 1), law.of_entries.cdf
        exact = float(steps**2 @ (cdf(steps) - cdf(steps - 1)))
        whole_steps = sqrt(exact) / law.deviation
    of_rows = 0.0
    if study.has_secret_rows:
        of_rows = count_deviation(layout, noise, n_owners=len(owner_rows)) / sum(owner_rows)
    return EntryNoise(
        deviation * whole_steps, type(law), mechanisms, of_rows * whole_steps, law.degrees
    )


def _cell_noise(study: Study, noise: Calibration, owner_rows: Sequence[int]) -> EntryNoise:
    """Noise of a count of a cell of weight 1, and of the number of rows."""
    of_cells = _entry_noise(study, noise.of_counts, owner_rows)
    return replace(of_cells, of_rows=_entry_noise(study, noise, owner_rows).of_rows)


def _counts(
    study: Study, histograms: Sequence[Array], tables: Sequence[Array], entry: EntryNoise
) -> Iterator[Counts]:
    """Yield the counts of a study; a tree's are those of its target, and of leaves."""
    schema = study.table
    weighted = replace(
        entry, deviation=entry.deviation / float(schema.layout.histogram_weight or 1)
    )
    for (attribute, _), shares in zip(schema.histograms, histograms, strict=True):
        yield Counts((attribute,), shares, weighted)
    weighted = replace(entry, deviation=entry.deviation / float(schema.layout.table_weight or 1))
    for partition, shares in zip(schema.partitions, tables, strict=True):
        if isinstance(partition, TableCells):
            axes = tuple(
                None if parts else attribute  # parts of a range are not the attribute's own cells
                for attribute, parts in zip(partition.attributes, partition.coarse, strict=True)
            )
            coarse = tuple(
                (attribute, parts) if parts else None
                for attribute, parts in zip(partition.attributes, partition.coarse, strict=True)
            )
            yield Counts(axes, shares.reshape(partition.sizes), weighted, coarse)
        else:
            shape = (partition.n_leaves, partition.n_target)
            yield Counts((None, partition.target), shares.reshape(shape), weighted)
