"""What a user is warned of before noise is drawn, from public numbers alone.

*Drowned.* Noise of standard deviation v on each weight puts noise of ``v r`` on the score of a row
of norm r. The two classes that are easiest to tell apart, all rows at one of two opposite points of
norm r, have scores of

    min(1, C n r^2)                                                                             (1)

at the minimum of ``|w|^2 / 2 + C sum hinge``. With noise of standard deviation s on each product of
p columns, the largest eigenvalue of the noise alone is about

    2 s sqrt(p)                                                                                 (2)

and no rows have a component of more variance than all their columns together. Where noise is the
larger of the two, there is a warning: it finds what is all but hopeless, not what is good.

*Copies.* A grid search or a cross-validation fits copies of one estimator, one for each fold and
setting. Each fit of a private method is a release: it draws its own noise and spends its own
epsilon, and where the rows are of the same people these add up. scikit-learn makes such copies by
``clone``, which asks the estimator (``__sklearn_clone__``); so an estimator counts its copies, and
the second one warns when it is fitted, in whichever process. One copy, as a pipeline makes it, is
no search.

Warnings come before noise is drawn: who turns them into errors has spent nothing. Noise of a source
that repeats itself protects nothing and spends nothing, so it is not warned of.

Limits: a loop that makes estimators by hand is not noticed; nor are two fits of one estimator.

Source: (2) is the edge of a symmetric matrix of independent entries (Wigner 1955).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Self

from dppca.common.estimators.base.guarantee import Variant
from dppca.common.estimators.base.weight_noise import WeightPlan
from dppca.common.numerics.spectrum.noise_edge import entry_noise
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.schema import Layout


class PrivacyWarning(UserWarning):
    """What a private method warns of; the root of its warnings."""


class NoiseWarning(PrivacyWarning):
    """The noise will drown whatever the rows could show."""


class SpendingWarning(PrivacyWarning):
    """Copies of one estimator are fitted, and each fit spends its epsilon."""


class CountsCopies:
    """Counts the copies that scikit-learn makes of an estimator; comes before `BaseEstimator`."""

    _n_copies = 0
    _copy_number = 0

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()  # type: ignore[misc]
        self._n_copies += 1
        copy._copy_number = self._n_copies
        return copy


def warn_of_copies(estimator: Any) -> None:
    """`SpendingWarning` where this is the second copy of an estimator that spends epsilon.

    The second only: a search of hundreds of fits says it once.
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
    """`NoiseWarning` where the noise on a score is larger than (1), of ``n_rows`` rows."""
    noise, score = plan.deviation * plan.radius, min(1.0, plan.C * n_rows * plan.radius**2)
    if noise > score and _spends(estimator):
        warnings.warn(
            f"the noise will drown the weights: on the score of a row it is about {noise:.3g}, "
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
    """`NoiseWarning` where noise alone has more variance than any rows.

    Parameters
    ----------
    noise
        On each of the vectors that are added.
    owner_rows
        Rows behind each vector.
    most
        The largest variance of all columns together, or the largest mean of squared norms.
    """
    one = entry_noise(layout, deviation=noise.law.deviation, owner_rows=owner_rows)
    edge = 2.0 * one * math.sqrt(layout.n_columns)
    if edge > most and _spends(estimator):
        warnings.warn(
            f"the noise will drown the components: alone it reaches eigenvalues of about "
            f"{edge:.3g}, and no rows have more variance than {most:.3g} in all. Take more rows, a "
            "larger epsilon, fewer columns, or Gaussian noise (a delta)",
            NoiseWarning,
            stacklevel=4,
        )


def _spends(estimator: Any) -> bool:
    """Whether a fit's noise is real, and its epsilon therefore spent."""
    sound = getattr(estimator, "variant", Variant.SOUND) == Variant.SOUND
    return sound and getattr(estimator, "entropy", ...) in (None, OperatingSystemEntropy)
