"""Warnings before noise is drawn, from public numbers alone.

*Drowned.* Noise of standard deviation v on each weight puts noise of ``v r`` on the score of a row
of norm r. The two classes that are easiest to separate, all rows at one of two opposite points of
norm r, have scores of

    min(1, C n r^2)                                                                             (1)

at the minimum of ``|w|^2 / 2 + C sum hinge``. With noise of standard deviation s on each product of
p columns, the largest eigenvalue of the noise alone is about

    2 s sqrt(p)                                                                                 (2)

and no rows have a component of more variance than all their columns together. If the noise exceeds
the score or variance, a warning is given: it finds nearly hopeless settings, not good ones.

*Copies.* A grid search or a cross-validation fits copies of one estimator, one for each fold and
setting. Each fit of a private method is a release: it draws its own noise and spends its own
epsilon, and on rows of the same people these add up. scikit-learn makes such copies by ``clone``,
which calls the estimator's ``__sklearn_clone__``; so an estimator counts its copies, and the second
one warns when it is fitted, in any process. One copy, as made by a pipeline, is no search.

Warnings come before noise is drawn: code that turns them into errors has spent nothing. Noise of a
repeatable source protects nothing and spends nothing, so it gives no warning.

Limits: loops that create estimators by hand are not detected; nor are two fits of one estimator.

Source: (2) is the edge of a symmetric matrix of independent entries (Wigner 1955).
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, Self

from dppca.common.analysis.estimators.base.guarantee import Variant
from dppca.common.analysis.estimators.base.weight_noise import WeightPlan
from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.schema import Layout


class PrivacyWarning(UserWarning):
    """Root of the warnings of private methods."""


class NoiseWarning(PrivacyWarning):
    """The noise will drown any signal in the rows."""


class SpendingWarning(PrivacyWarning):
    """Copies of one estimator are fitted, and each fit spends its epsilon."""


class CountsCopies:
    """Count the copies that scikit-learn makes of an estimator; comes before `BaseEstimator`."""

    _n_copies = 0
    _copy_number = 0

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()  # type: ignore[misc]
        self._n_copies += 1
        copy._copy_number = self._n_copies
        return copy


def warn_of_copies(estimator: Any) -> None:
    """Warn (`SpendingWarning`) if this is the second copy of an estimator that spends epsilon.

    Only the second copy warns: a search of hundreds of fits gives one warning.
    """
    if estimator._copy_number == 2 and _spends(estimator):  # noqa: SLF001 - its own counter
        warnings.warn(
            "copies of one estimator are being fitted, as a grid search or a cross-validation does "
            "it: each fit draws its own noise and spends its own epsilon, and on rows of the same "
            "people these add up. Compare settings by public numbers (dppca.plan) or on public "
            "rows",
            SpendingWarning,
            stacklevel=3,
        )


def warn_of_drowned_weights(estimator: Any, plan: WeightPlan, *, n_rows: int) -> None:
    """Warn (`NoiseWarning`) if the noise on a score exceeds (1) for ``n_rows`` rows."""
    noise, score = plan.deviation * plan.radius, min(1.0, plan.C * n_rows * plan.radius**2)
    if noise > score and _spends(estimator):
        warnings.warn(
            f"the noise will hide the weights: on the score of a row it is about {noise:.3g}, "
            f"where classes as far apart as rows can be have scores of {score:.3g}. Take more "
            "rows, a larger epsilon, fewer columns, or Gaussian noise (a delta)",
            NoiseWarning,
            stacklevel=4,
        )


def warn_of_drowned_components(
    estimator: Any,
    noise: Calibration,
    layout: Layout,
    *,
    owner_rows: Sequence[int],
    most: float,
) -> None:
    """Warn (`NoiseWarning`) if noise alone has more variance than any rows.

    ``noise`` belongs to each vector in the sum and ``owner_rows`` the rows behind each; ``most`` is
    the largest variance of all columns together, or the largest mean of squared norms.
    """
    product = noise.law.deviation_of(Noised.PRODUCT, layout)
    one = entry_noise(layout, deviation=product, owner_rows=owner_rows)
    edge = 2.0 * one * math.sqrt(layout.n_columns)
    if edge > most and _spends(estimator):
        warnings.warn(
            f"the noise will hide the components: alone it reaches eigenvalues of about "
            f"{edge:.3g}, and no rows have more variance than {most:.3g} in all. Take more rows, a "
            "larger epsilon, fewer columns, or Gaussian noise (a delta)",
            NoiseWarning,
            stacklevel=4,
        )


def _spends(estimator: Any) -> bool:
    """Return True if a fit's noise is real, and its epsilon is therefore spent."""
    sound = getattr(estimator, "variant", Variant.SOUND) == Variant.SOUND
    return sound and getattr(estimator, "entropy", ...) in (None, OperatingSystemEntropy)
