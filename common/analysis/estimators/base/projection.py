"""Components kept by an estimator, and rows projected on them.

The number is the smallest whose eigenvalues reach the contribution rate c of their sum (Huang et
al. 2021, equation 3), or a given number, or the number above the edge of the noise. Noise makes
some eigenvalues negative: the sound forms sum the positive ones, the published forms all of them
with their signs, as in the formula, or by magnitude, as software does that decomposes the noised
matrix by its singular values: then directions that only noise made negative are kept, too.

Source: `dppca.common.analysis.spectrum.pca`, which the federation uses too.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.guarantee import Variant
from dppca.common.analysis.estimators.base.settings import check_positive_int, check_share
from dppca.common.analysis.spectrum.pca import Decomposition, count_components
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.study import ComponentRule

ABOVE_NOISE = "above-noise"
SIGNED, MAGNITUDE = "signed", "magnitude"


def project(rows: NDArray[np.float64], components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores ``X V_k`` of rows (n, d) on components (k, d), shape (n, k).

    They are private only if the rows are. BLAS rounds them by a row's place: values that noise must
    protect are computed by `dppca.common.kernel.moments.rowwise` instead.
    """
    scores: NDArray[np.float64] = rows @ components.T
    return scores


def check_rule(contribution_rate: object, n_components: object, *, with_edge: bool = False) -> None:
    """Raise `SettingError` for a rule that is wrong for any number of columns.

    ``with_edge`` allows `ABOVE_NOISE`, for a method that knows the edge of its noise.
    """
    check_share("contribution_rate", contribution_rate)
    if n_components is not None and not (with_edge and n_components == ABOVE_NOISE):
        check_positive_int("n_components", n_components)


def check_rule_fits(n_components: object, d: int) -> None:
    """Raise unless n_components is at most d - 1; `DataError` if d is below 2."""
    if d < 2:
        raise DataError(f"X has 1 feature(s), n_features={d}: components need two columns or more")
    if n_components is not None and n_components != ABOVE_NOISE:
        why = f", one below the number of columns, {d}"
        check_positive_int("n_components", n_components, largest=d - 1, why=why)


def check_rate_of(rate_of: object, variant: Variant) -> bool:
    """Whether eigenvalues count by magnitude; `SettingError` for another word or a sound form."""
    if rate_of not in (SIGNED, MAGNITUDE):
        raise SettingError(f"rate_of must be {SIGNED!r} or {MAGNITUDE!r}, not {rate_of!r}")
    if rate_of == MAGNITUDE and variant is Variant.SOUND:
        raise SettingError(
            f"rate_of={MAGNITUDE!r} is a reading of the published form: leave it out, or set "
            "variant='published'"
        )
    return rate_of == MAGNITUDE


def by_magnitude(parts: Decomposition) -> Decomposition:
    """Return a decomposition with the magnitudes of the eigenvalues, descending."""
    sizes = np.abs(parts.eigenvalues)
    order = np.argsort(-sizes, kind="stable")
    return replace(parts, eigenvalues=sizes[order], vectors=parts.vectors[order])


def select_components(
    parts: Decomposition,
    *,
    contribution_rate: object,
    n_components: object,
    signed: bool,
    noise_edge: float | None = None,
) -> NDArray[np.float64]:
    """Return the kept eigenvectors as rows, shape (k, d) with ``1 <= k < d``.

    ``n_components`` is k, or `ABOVE_NOISE`, or None for the rule of the contribution rate;
    ``noise_edge`` is the threshold of `ABOVE_NOISE`, None if unknown. Raise `SettingError` if k is
    above d - 1 and `DataError` if there is only one column.
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
