"""Decoded synthetic rows from released moments, by a fitted field.

The field takes the place of thresholds on probabilistic PCA's coordinates: it keeps the released
marginals and, as far as the noise lets them be known, the products of every pair of attributes
(`dppca.common.numerics.synthesis.field`; where all attributes are binary,
`dppca.common.numerics.synthesis.binary_field`). All of it is post-processing of a release.

Where a fit has not converged, the rows are decoded by `dppca.common.numerics.synthesis.discretize`,
and the caller is told so. Rows of the unit ball, releases without sums and schemas of more than
2048 columns have no field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.numerics.synthesis.binary_field import MOST_BINARIES, fit_binary_field
from dppca.common.numerics.synthesis.discretize import MOST_COLUMNS, DecodedColumn
from dppca.common.numerics.synthesis.field import FittedField, draw_blocks, fit_field
from dppca.common.numerics.synthesis.targets import FieldTargets, coupling_scales, field_targets
from dppca.common.schema.layout import ColumnKind, Layout


@dataclass(frozen=True, slots=True)
class FieldFit:
    """A fitted field with what it was fitted to; rows can be drawn from it any number of times."""

    targets: FieldTargets
    fitted: FittedField

    @property
    def converged(self) -> bool:
        """Whether rows may be drawn."""
        return self.fitted.converged

    def blocks(self, n_rows: int, *, rng: np.random.Generator) -> Iterator[list[DecodedColumn]]:
        """Draw rows block by block, so that memory does not grow with their number.

        A block has one array per attribute in the layout's order, shape (rows of the block,): a
        numeric is float64 in [-1/2, 1/2], anything else int32 codes, as `discretize`.
        """
        for codes in draw_blocks(self.fitted, self.targets, n_rows, rng=rng):
            yield _columns(codes, self.targets, rng)


def fit_released(
    layout: Layout,
    *,
    mean: NDArray[np.float64] | None,
    second: NDArray[np.float64],
    entry_noise: float,
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> FieldFit | None:
    """Fit a field to released moments; None where there is none for such a schema.

    Parameters
    ----------
    mean, second
        As released, shapes (p,) and (p, p); mean is None where the release has no sums.
    entry_noise
        Standard deviation of the noise of an entry of ``second``
        (`dppca.common.numerics.spectrum.noise_edge.entry_noise`), at least 0.
    rng
        Decides the chains; the same state gives the same field.
    progress
        Told the share that is done, from 0 to 1; it never falls.
    """
    if (
        mean is None
        or layout.unit_ball
        or not 1 < len(layout.groups) <= layout.n_columns <= MOST_COLUMNS
    ):
        return None
    targets = field_targets(layout, mean=mean, second=second, entry_noise=entry_noise)
    if set(layout.kinds) == {ColumnKind.BINARY} and layout.n_columns <= MOST_BINARIES:
        return FieldFit(targets, fit_binary_field(targets, rng=rng, progress=progress))
    scales = coupling_scales(targets, layout.groups)
    return FieldFit(targets, fit_field(targets, scales, rng=rng, progress=progress))


def _columns(
    codes: NDArray[np.int32], targets: FieldTargets, rng: np.random.Generator
) -> list[DecodedColumn]:
    columns: list[DecodedColumn] = []
    for values, each in zip(targets.values, codes.T, strict=True):
        if _is_numeric(values):
            within = (rng.random(len(each)) - 0.5) / len(values)
            columns.append(np.clip(values[each, 0] + within, -0.5, 0.5))
        else:
            columns.append(np.ascontiguousarray(each))
    return columns


def _is_numeric(values: NDArray[np.float64]) -> bool:
    return values.shape[1] == 1 and len(values) > 2
