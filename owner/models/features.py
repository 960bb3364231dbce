"""Features of a model: scores of a row in a public space of all coded columns but the target's.

Rows are coded by the study's schema, in real units: numerics and binaries in [-1/2, 1/2], one
indicator of 1 per categorical and per numeric with ``products: bins``, or rows in the unit ball. No
coded row is longer than the public radius ``R = sqrt(Q/4 + c)`` for c attributes with indicators
and Q others (1 in the unit ball). Coding is total, so a model never sees a value that is missing or
out of bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.documents.names import nearest_name
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.rowwise import products, weights_on
from dppca.common.kernel.schema import Binary, Categorical, Column, Schema, encode
from dppca.common.kernel.schema.coding import row_norms

FeatureReader = Callable[[list[Column]], NDArray[np.float64]]
"""Function from a batch of columns to site-only features, shape (n_batch, f)."""


@dataclass(frozen=True, slots=True)
class FeatureSpace:
    """Released components of all coded columns but the target's; they are free post-processing.

    ``columns`` are the indices of the coded columns that are features, shape (f,); ``mean`` is
    their released mean, (f,), in coded units, zeros if there is none; the rows of ``components``,
    (k, f), are eigenvectors of their released covariance. With ``row_norm``, R, scores are scaled
    into the ball of that radius; None leaves them unchanged.
    """

    columns: NDArray[np.int64]
    mean: NDArray[np.float64]
    components: NDArray[np.float64]
    row_norm: float | None = None

    def project(self, schema: Schema, columns: list[Column]) -> NDArray[np.float64]:
        """Return scores of rows, shape (n_rows, k); site-only: raw rows in a released basis.

        Each is a function of its row alone: an exact product of the coded row and the components
        rounded to a public grid, less the same constant (`dppca.common.kernel.moments.rowwise`).
        """
        rows = encode(schema, columns)[:, self.columns]
        grid = weights_on(self.components, largest=1 << schema.resolution_bits)
        constant = products(self.mean[None], self.components)
        scores: NDArray[np.float64] = (
            np.ldexp(grid.multiply(rows), -grid.bits - schema.resolution_bits) - constant
        )
        if self.row_norm is None:
            return scores
        inside: NDArray[np.float64] = scores * (
            self.row_norm / np.maximum(row_norms(scores)[:, None], self.row_norm)
        )
        return inside


def find_target(schema: Schema, target: str) -> Binary | Categorical:
    """Return the attribute to predict; `SettingError` lists the possible targets."""
    attribute = next((a for a in schema.attributes if a.name == target), None)
    if isinstance(attribute, Binary | Categorical):
        return attribute
    choice = [a.name for a in schema.attributes if isinstance(a, Binary | Categorical)]
    wrong = "is numeric" if attribute is not None else "is not an attribute of the study"
    near = nearest_name(target, choice) if attribute is None else None
    meant = "" if near is None else f" (did you mean {near}?)"
    raise SettingError(
        f"{target} {wrong}{meant}; "
        + (
            f"a target can be {', '.join(choice)}"
            if choice
            else "the study has no binary or categorical attribute that could be a target"
        )
    )


def list_features(schema: Schema, target: str) -> NDArray[np.int64]:
    """Return indices of the coded columns of all attributes but ``target``, shape (f,)."""
    start, stop = schema.layout.groups[schema.find_index(target)]
    return np.array([c for c in range(schema.layout.n_columns) if not start <= c < stop], np.int64)
