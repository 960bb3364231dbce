"""Which components an estimator keeps, and rows projected on them.

The smallest number whose eigenvalues reach the contribution rate c of their sum (Huang et al. 2021,
equation 3), or a number given, or as many as stand above the edge of the noise. Noise makes some
eigenvalues negative: the sound forms sum the positive ones, the published forms all of them with
their signs, as the formula has it.

Source: `dppca.common.numerics.spectrum.pca`, which the federation uses too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dppca.common.errors import DataError
from dppca.common.estimators.base.settings import check_positive_int, check_share
from dppca.common.numerics.spectrum.pca import Decomposition, count_components
from dppca.common.study import ComponentRule

ABOVE_NOISE = "above-noise"


def project(rows: NDArray[np.float64], components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores ``X V_k`` of rows (n, d) on components (k, d), shape (n, k).

    As private, or not, as the rows are. BLAS rounds them by a row's place: what noise is to protect
    is computed by `dppca.common.numerics.rowwise` instead.
    """
    scores: NDArray[np.float64] = rows @ components.T
    return scores


def check_rule(contribution_rate: object, n_components: object, *, with_edge: bool = False) -> None:
    """Refuse a rule that is wrong whatever the number of columns.

    ``with_edge`` says whether the method knows the edge of its noise, so that n_components may be
    `ABOVE_NOISE`.
    """
    check_share("contribution_rate", contribution_rate)
    if n_components is not None and not (with_edge and n_components == ABOVE_NOISE):
        check_positive_int("n_components", n_components)


def check_rule_fits(n_components: object, d: int) -> None:
    """Refuse a number of components above d - 1; `DataError` where d is below 2."""
    if d < 2:
        raise DataError(f"X has 1 feature(s), n_features={d}: components need two columns or more")
    if n_components is not None and n_components != ABOVE_NOISE:
        why = f", one below the number of columns, {d}"
        check_positive_int("n_components", n_components, largest=d - 1, why=why)


def select_components(
    parts: Decomposition,
    *,
    contribution_rate: object,
    n_components: object,
    signed: bool,
    noise_edge: float | None = None,
) -> NDArray[np.float64]:
    """The kept eigenvectors as rows, shape (k, d) with ``1 <= k < d``.

    Parameters
    ----------
    n_components
        k, or `ABOVE_NOISE`, or None for the rule of the contribution rate.
    noise_edge
        What an eigenvalue must exceed to be kept above the noise; None where it is not known.

    Raises
    ------
    SettingError
        k is above d - 1.
    DataError
        There is one column only.
    """
    check_rule_fits(n_components, len(parts.eigenvalues))
    if n_components is None:
        rule = ComponentRule(
            contribution_rate=check_share("contribution_rate", contribution_rate),
            trace="signed" if signed else "positive",
        )
    elif n_components == ABOVE_NOISE and noise_edge is not None:
        rule = ComponentRule(above_noise=True)
    else:
        rule = ComponentRule(count=check_positive_int("n_components", n_components))
    count = count_components(parts.eigenvalues, rule, noise_edge=noise_edge or 0.0)
    return parts.vectors[:count]
