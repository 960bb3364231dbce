"""Scaling of rows into the unit ball, by public numbers.

    x  becomes  z min(1, 1/|z|),   z = (x - centre) / scale                                    (1)

with the L2 norm |z|. Where |z| is beyond all floats, z over a power of two takes the place of z:
the row keeps its direction. Each row is mapped on its own, to the last bit (`row_norms`), and the
map learns nothing from rows: it has no privacy cost and commutes with replacing a row. It changes
rows longer than the scale. Users ask for this explicitly; the estimators themselves never clip.

Limits: ``centre`` and ``scale`` must be public. A scale taken from the rows (their largest norm,
their standard deviation) is a release without a charge.

Source: the coding ``row_norm`` of the federation's schemas, as Huang et al. (2021), section 2.1,
and Sun et al. (2022), section 4.2, require of their rows.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin

from dppca.common.analysis.estimators.base.inputs import check_fit_table, check_new_rows
from dppca.common.analysis.estimators.base.masks import require_plain
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.coding import row_norms


@dataclass(kw_only=True, eq=False, repr=False)
class UnitBall(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Scale rows into the unit ball, equation (1).

    Parameters
    ----------
    centre, scale
        Public numbers: one, or one per column; ``scale`` above 0.
    """

    centre: ArrayLike = 0.0
    scale: ArrayLike = 1.0

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: ARG002 - scikit-learn's protocol
        """Learn the number of columns, and nothing else."""
        rows = check_fit_table(self, X, row_norm=None, allow_constant=True, few_rows=True)
        self._public(rows.shape[1])
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return rows of norm at most 1 (up to rounding), shape (n_rows, d); a new array."""
        rows = check_new_rows(self, X)
        centre, scale = self._public(rows.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            moved = (rows - centre) / scale
            norms = row_norms(moved)
        far = ~np.isfinite(norms)
        moved[far] = _over_powers_of_two(rows[far], centre, scale)
        norms[far] = row_norms(moved[far])
        inside: NDArray[np.float64] = moved / np.maximum(norms[:, None], 1.0)
        return inside

    def _public(self, d: int) -> tuple[Any, Any]:
        require_plain(centre=self.centre, scale=self.scale)
        centre = np.asarray(self.centre, dtype=np.float64)
        scale = np.asarray(self.scale, dtype=np.float64)
        for name, each in (("centre", centre), ("scale", scale)):
            if each.shape not in ((), (d,)) or not np.isfinite(each).all():
                raise SettingError(
                    f"{name} must be one finite number, or one for each of {d} columns"
                )
        if not (scale > 0).all():
            raise SettingError("scale must be above 0 in every column")
        return centre, scale


def _over_powers_of_two(
    rows: NDArray[np.float64], centre: NDArray[np.float64], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``(rows - centre) / scale``, each row over a power of two: its largest in [1, 2)."""
    top, power = np.frexp(rows / 4 - centre / 4)  # quarters: a difference may be beyond all floats
    below, less = np.frexp(scale)
    top, more = np.frexp(top / below)
    power = power - less + more
    highest = np.where(top == 0, -(1 << 20), power).max(axis=1, initial=-(1 << 20), keepdims=True)
    over: NDArray[np.float64] = np.ldexp(top, power - highest + 1)
    return over
