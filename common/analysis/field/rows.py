"""Decoded synthetic rows from released moments, by a fitted field.

The field replaces thresholds on probabilistic PCA's coordinates: it keeps the released marginals
and, as far as the noise allows, the products of every pair of attributes
(`dppca.common.analysis.field.field`; if all attributes are binary,
`dppca.common.analysis.field.binary_field`). If the release counts rows in tables and trees, the
field's rows are weighted to meet these counts (`dppca.common.analysis.field.tilt`), chosen by
their weights from a pool of more than twice as many, and changed in as few values as the marginals
need. Then numbers are moved to vary together as far as the release knows it
(`dppca.common.analysis.field.moved_numbers`). This is post-processing of a release.

If a fit has not converged, `dppca.common.analysis.field.discretize` decodes the rows and the
caller is informed. Rows of the unit ball, releases without sums and schemas of more than 2048
columns have no field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.binary_field import MOST_BINARIES, fit_binary_field
from dppca.common.analysis.field.cell_values import ValueSampler
from dppca.common.analysis.field.discretize import MOST_COLUMNS
from dppca.common.analysis.field.field import Chains, FittedField, draw_blocks, fit_field
from dppca.common.analysis.field.marginals import apportion
from dppca.common.analysis.field.missed import MOST_ROWS, Missed, Tail, find_missed
from dppca.common.analysis.field.moved_numbers import MovedNumbers, fit_moves
from dppca.common.analysis.field.targets import FieldTargets, coupling_scales, field_targets
from dppca.common.analysis.field.tilt import Counted, KnownMean, Tilt, fit_tilt, sample_by_weight
from dppca.common.kernel.schema import Column, ColumnKind, Partition, Schema, encode, row_codes

_POOL_ROWS = 24 * 4096  # at most, in whole blocks
_POOL_VALUES = 1 << 22  # values of the pool, for its memory
_LEAST_POOL = 8192  # rows of a pool for wide schemas
_POOL_PER_ROW = 2.5  # rows of the pool for each one chosen: else the same come again and again
_BLOCK_ROWS = 4096  # under one quota
_SAMPLE_ROWS = 4096  # at least, of which moves are fitted and misses are found
_JUDGED_VALUES = 1 << 23  # coded values of the rows in which misses are found, for their memory
_MOVED_ROWS = 1 << 15  # on which moves are fitted


@dataclass(frozen=True, slots=True)
class FieldFit:
    """A fitted field and its targets; rows can be drawn from it any number of times.

    ``tilted`` is None if nothing was counted in tables, ``moves`` if numbers vary together as they
    should already. ``missed`` is what the release knows and the rows do not have.
    """

    schema: Schema
    targets: FieldTargets
    fitted: FittedField
    tilted: TiltedPool | None = None
    moves: MovedNumbers | None = None
    missed: tuple[Missed, ...] = ()

    @property
    def converged(self) -> bool:
        """Return True if rows may be drawn."""
        return self.fitted.converged

    def blocks(self, n_rows: int, *, rng: np.random.Generator) -> Iterator[list[Column]]:
        """Draw rows block by block, so that memory does not grow with their number.

        A block has one array per attribute in the layout's order, shape (rows of the block,): a
        numeric is float64 in its own unit, within its bounds and whole if the schema requires it;
        other attributes are int32 codes of labels.
        """
        if self.tilted is None:
            blocks = self._plain_blocks(n_rows, rng)
        else:
            blocks = self._tilted_blocks(self.tilted, n_rows, rng)
        yield from blocks if self.moves is None else map(partial(self._moved, rng=rng), blocks)

    def with_tables(
        self, tables: Sequence[tuple[Partition, Counted]], rng: np.random.Generator
    ) -> FieldFit:
        """Return the field, tilted to the released counts of tables."""
        return replace(self, tilted=self._draw_pool(tables, rng))

    def with_moves(self, rng: np.random.Generator) -> FieldFit:
        """Return the field with the moves that numbers of its rows need."""
        if self.targets.numeric.sum() < 2:
            return self
        most = max(_SAMPLE_ROWS, _POOL_VALUES // len(self.targets.marginals))
        sample = self._sample(min(_MOVED_ROWS, most), rng)
        tables = [] if self.tilted is None else [partition for partition, _ in self.tilted.tables]
        return replace(self, moves=fit_moves(self.schema, self.targets, sample, tables, rng))

    def judged(self, rng: np.random.Generator, tail: Tail, n_rows: int) -> FieldFit:
        """Return the field with what its rows miss of the release, if there are ``n_rows``."""
        tables = [] if self.tilted is None else self.tilted.tables
        most = min(MOST_ROWS, _JUDGED_VALUES // len(self.targets.mean))
        blocks = self.blocks(max(_SAMPLE_ROWS, min(n_rows, most)), rng=rng)
        rows = [np.concatenate(each) for each in zip(*blocks, strict=True)]
        missed = find_missed_by(self.schema, self.targets, rows, tables, tail=tail)
        return replace(self, missed=missed)

    def _moved(self, columns: list[Column], *, rng: np.random.Generator) -> list[Column]:
        return columns if self.moves is None else self.moves.move(self.schema, columns, rng)

    def _sample(self, n_rows: int, rng: np.random.Generator) -> list[Column]:
        """Return rows as they are drawn, before numbers are moved."""
        if self.tilted is not None:
            pool = self.tilted
            rows = sample_by_weight(pool.tilt.weights, n_rows, rng, order=pool.order)
            return [column[rows] for column in pool.columns]
        blocks = self._plain_blocks(n_rows, rng)
        return [np.concatenate(each) for each in zip(*blocks, strict=True)]

    def _plain_blocks(self, n_rows: int, rng: np.random.Generator) -> Iterator[list[Column]]:
        samplers = self._samplers()
        for codes in draw_blocks(self.fitted, self.targets, n_rows, rng=rng):
            yield _values(samplers, codes, rng)

    def _samplers(self) -> list[ValueSampler | None]:
        return [
            None if numeric is None else numeric.spread(shares)
            for numeric, shares in zip(self.targets.numerics, self.fitted.marginals, strict=True)
        ]

    def _draw_pool(
        self,
        tables: Sequence[tuple[Partition, Counted]],
        rng: np.random.Generator,
        *,
        like: Tilt | None = None,
    ) -> TiltedPool:
        """Draw rows of the field and fit their weights, from the coefficients of another pool."""
        few = max(_LEAST_POOL, _POOL_VALUES // len(self.targets.marginals))
        samplers, codes, columns = self._samplers(), [], []
        for block in draw_blocks(self.fitted, self.targets, min(_POOL_ROWS, few), rng=rng):
            codes.append(block)
            columns.append(_values(samplers, block, rng))
        values = [np.concatenate(each) for each in zip(*columns, strict=True)]
        all_codes = np.concatenate(codes)
        rows = row_codes(self.schema, values)
        of_tables = [partition.find(rows) for partition, _ in tables]
        counted, means = list[Counted](), list[KnownMean]()
        for index, guess in enumerate(self.targets.guesses):
            marginal = self.fitted.marginals[index]
            if guess is None:
                counted.append(Counted.marginal(marginal))
                continue
            counted.append(Counted.marginal(marginal, guess.deviation))
            at = coordinates(self.schema, index, values[index])
            means += map(KnownMean, (at, at**2), guess.moments, guess.noise)
        counted += [counts for _, counts in tables]
        tilt = fit_tilt([*all_codes.T, *of_tables], counted, means, like=like)
        return TiltedPool(all_codes, values, tables, tilt, np.lexsort(of_tables[::-1]))

    def _tilted_blocks(
        self, pool: TiltedPool, n_rows: int, rng: np.random.Generator
    ) -> Iterator[list[Column]]:
        # A guess gives way to what the tables say of it.
        marginals = [
            known if guess is None else of_pool / of_pool.sum()
            for known, of_pool, guess in zip(
                self.fitted.marginals,
                pool.tilt.shares[: len(self.targets.guesses)],
                self.targets.guesses,
                strict=True,
            )
        ]
        left = [apportion(q, n_rows) for q in marginals]
        samplers = self._samplers()
        while n_rows:
            part = min(n_rows, int(len(pool.codes) / _POOL_PER_ROW))
            n_rows -= part
            chosen = sample_by_weight(pool.tilt.weights, part, rng, order=pool.order)
            for rows in np.split(chosen, range(_BLOCK_ROWS, part, _BLOCK_ROWS)):
                quota = [apportion(each / each.sum(), len(rows)) for each in left]
                for each, taken in zip(left, quota, strict=True):
                    each -= taken
                chains = Chains(self.targets, pool.codes[rows])
                chains.sweep(self.fitted.field, rng, quota=quota, keep=True)
                fresh = _values(samplers, chains.codes, rng)
                changed = (chains.codes != pool.codes[rows]).T
                yield [
                    np.where(moved, new, old[rows])
                    for moved, new, old in zip(changed, fresh, pool.columns, strict=True)
                ]
            if n_rows:
                pool = self._draw_pool(pool.tables, rng, like=pool.tilt)


@dataclass(frozen=True, slots=True)
class TiltedPool:
    """Rows of a field: codes (n, attributes), values, and the weights that meet the counts.

    Weights hold for the rows that they were fitted on: in another pool, cells that few of the
    first one's rows were in would weigh too much. So each pool has its own. In ``order``, rows of
    the same cell of the first table follow each other, and in it those of one cell of the second.
    """

    codes: NDArray[np.int32]
    columns: list[Column]
    tables: Sequence[tuple[Partition, Counted]]
    tilt: Tilt
    order: NDArray[np.intp]


def find_missed_by(
    schema: Schema,
    targets: FieldTargets,
    columns: Sequence[Column],
    tables: Sequence[tuple[Partition, Counted]],
    *,
    tail: Tail,
) -> tuple[Missed, ...]:
    """Return what rows miss of a release, whoever drew them; the largest difference first.

    ``columns`` has one array per attribute, shape (n_rows,), as `encode` takes them; ``tables`` are
    released ones with their counts.
    """
    codes = row_codes(schema, columns)
    shares = [
        np.bincount(partition.find(codes), minlength=partition.n_cells) / len(columns[0])
        for partition, _ in tables
    ]
    return find_missed(
        schema,
        targets,
        encode(schema, columns) / float(1 << schema.resolution_bits),
        [(*each, found) for each, found in zip(tables, shares, strict=True)],
        tail=tail,
    )


def coordinates(schema: Schema, index: int, values: Column) -> NDArray[np.float64]:
    """Return a numeric's values on its score's scale, shape (n,): 0 for missing ones."""
    cells = schema.cells[index]
    assert cells is not None  # noqa: S101 - the attribute is a numeric with bounds
    at = cells.scale.coordinates(np.asarray(values, np.float64))
    return np.nan_to_num(at, copy=False)


def _values(
    samplers: Sequence[ValueSampler | None], codes: NDArray[np.int32], rng: np.random.Generator
) -> list[Column]:
    return [
        np.ascontiguousarray(each) if sampler is None else sampler.draw(each, rng)
        for sampler, each in zip(samplers, codes.T, strict=True)
    ]


def fit_released(
    schema: Schema,
    *,
    mean: NDArray[np.float64] | None,
    second: NDArray[np.float64],
    histograms: Sequence[NDArray[np.float64] | None],
    entry_noise: float,
    n_rows: int,
    rng: np.random.Generator,
    tail: Tail,
    tables: Sequence[tuple[Partition, Counted]] = (),
    count_noise: float | None = None,
    joint: bool = False,
    progress: Callable[[float], None] | None = None,
) -> FieldFit | None:
    """Fit a field to released moments and counts. Return None if a schema has no field.

    Parameters
    ----------
    mean, second
        Released moments, shapes (p,) and (p, p); mean is None if the release has no sums.
    histograms
        For each attribute, the released share of the rows in each of its cells, or None
        (`dppca.common.kernel.attestation.results.Result.histograms`).
    entry_noise
        Standard deviation of the noise of an entry of ``second`` of weight 1
        (`dppca.common.analysis.spectrum.noise_edge.entry_noise`), at least 0.
    n_rows
        Rows of the release; in as many is looked for what they miss of it, within bounds.
    rng
        Decides the chains; the same state gives the same field.
    tail
        Chance that an entry's noise is at least so many standard deviations from 0.
    tables
        Released tables, of this study and of one that continues it, with their counts.
    count_noise, joint
        Noise of a histogram's share, if it is another one; whether the noise is that of a whole
        release (`dppca.common.kernel.privacy.noise_law`).
    progress
        Receives the share that is done, from 0 to 1; it never falls.
    """
    targets = released_targets(
        schema,
        mean=mean,
        second=second,
        histograms=histograms,
        entry_noise=entry_noise,
        tables=tables,
        count_noise=count_noise,
        joint=joint,
    )
    if targets is None:
        return None
    layout = schema.layout
    if set(layout.kinds) == {ColumnKind.BINARY} and layout.n_columns <= MOST_BINARIES:
        fitted = fit_binary_field(targets, rng=rng, progress=progress)
    else:
        scales = coupling_scales(targets, layout.groups)
        fitted = fit_field(targets, scales, rng=rng, progress=progress)
    fit = FieldFit(schema, targets, fitted)
    if not fit.converged:
        return fit
    if tables:
        fit = fit.with_tables(tables, rng)
    of_judge, of_moves = rng.spawn(2)
    return fit.with_moves(of_moves).judged(of_judge, tail, n_rows)


def released_targets(
    schema: Schema,
    *,
    mean: NDArray[np.float64] | None,
    second: NDArray[np.float64],
    histograms: Sequence[NDArray[np.float64] | None],
    entry_noise: float,
    tables: Sequence[tuple[Partition, Counted]] = (),
    count_noise: float | None = None,
    joint: bool = False,
) -> FieldTargets | None:
    """Return the targets of `fit_released`, given the same arguments; None without a field."""
    layout = schema.layout
    if (
        mean is None
        or layout.unit_ball
        or not 1 < len(layout.groups) <= layout.n_columns <= MOST_COLUMNS
    ):
        return None
    return field_targets(
        schema,
        mean=mean,
        second=second,
        histograms=histograms,
        entry_noise=entry_noise,
        tables=tables,
        count_noise=count_noise,
        joint=joint,
    )
