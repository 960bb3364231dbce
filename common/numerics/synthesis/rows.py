"""Decoded synthetic rows from released moments, by a fitted field.

The field replaces thresholds on probabilistic PCA's coordinates: it keeps the released marginals
and, as far as the noise allows, the products of every pair of attributes
(`dppca.common.numerics.synthesis.field`; if all attributes are binary,
`dppca.common.numerics.synthesis.binary_field`). This is post-processing of a release.

If a fit has not converged, `dppca.common.numerics.synthesis.discretize` decodes the rows and the
caller is informed. Rows of the unit ball, releases without sums and schemas of more than 2048
columns have no field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.numerics.synthesis.binary_field import MOST_BINARIES, fit_binary_field
from dppca.common.numerics.synthesis.discretize import MOST_COLUMNS
from dppca.common.numerics.synthesis.field import FittedField, draw_blocks, fit_field
from dppca.common.numerics.synthesis.targets import FieldTargets, coupling_scales, field_targets
from dppca.common.schema import Column, ColumnKind, Schema


@dataclass(frozen=True, slots=True)
class FieldFit:
    """A fitted field and its targets; rows can be drawn from it any number of times."""

    targets: FieldTargets
    fitted: FittedField

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
        samplers = [
            None if numeric is None else numeric.spread(shares)
            for numeric, shares in zip(self.targets.numerics, self.fitted.marginals, strict=True)
        ]
        for codes in draw_blocks(self.fitted, self.targets, n_rows, rng=rng):
            yield [
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
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> FieldFit | None:
    """Fit a field to released moments. Return None if a schema has no field.

    Parameters
    ----------
    mean, second
        Released moments, shapes (p,) and (p, p); mean is None if the release has no sums.
    histograms
        For each attribute, the released share of the rows in each of its cells, or None
        (`dppca.common.attestation.results.Result.histograms`).
    entry_noise
        Standard deviation of the noise of an entry of ``second`` of weight 1
        (`dppca.common.numerics.spectrum.noise_edge.entry_noise`), at least 0.
    rng
        Decides the chains; the same state gives the same field.
    progress
        Receives the share that is done, from 0 to 1; it never falls.
    """
    targets = released_targets(
        schema, mean=mean, second=second, histograms=histograms, entry_noise=entry_noise
    )
    if targets is None:
        return None
    layout = schema.layout
    if set(layout.kinds) == {ColumnKind.BINARY} and layout.n_columns <= MOST_BINARIES:
        return FieldFit(targets, fit_binary_field(targets, rng=rng, progress=progress))
    scales = coupling_scales(targets, layout.groups)
    return FieldFit(targets, fit_field(targets, scales, rng=rng, progress=progress))


def released_targets(
    schema: Schema,
    *,
    mean: NDArray[np.float64] | None,
    second: NDArray[np.float64],
    histograms: Sequence[NDArray[np.float64] | None],
    entry_noise: float,
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
        schema, mean=mean, second=second, histograms=histograms, entry_noise=entry_noise
    )
