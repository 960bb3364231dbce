"""Correlations, with Fisher's z: ``se^2 = 1 / (n - 3) + noise / (1 - r^2)^2``.

The first part is normal theory, an assumption; the noise is exact to first order.
"""

from math import sqrt

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate
from dppca.common.analysis.estimates.intervals import FisherZ
from dppca.common.analysis.estimates.noise import form
from dppca.common.analysis.estimates.release import ReleasedMoments
from dppca.common.analysis.estimates.scope import Scope, too_weak
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError


def estimate_correlation(
    moments: ReleasedMoments, scope: Scope, x: Variable, y: Variable
) -> Estimate:
    """Estimate the correlation of two numbers or indicators of different attributes."""
    if x.attribute == y.attribute:
        raise SettingError("a correlation needs two different attributes")
    name, block = f"{x.name} with {y.name}", moments.block([x.attribute, y.attribute])
    one = block.unit(0)
    centred = [v - block.value(one, v) * one for v in (x.coded(block), y.coded(block))]
    left, right = centred
    pairs = [(left, right), (left, left), (right, right)]
    covariance, *variances = (block.value(u, v) for u, v in pairs)
    gradients = np.array([form(u, v) for u, v in pairs])
    noise = block.noise(gradients)
    for each, variance, error in zip((x, y), variances, noise.variance[1:], strict=True):
        refused = too_weak(
            *(moments, each.name, f"the noise hides the variance of {each.name}"),
            size=variance,
            noise=float(error),
        )
        if refused is not None:
            return Estimate(name, refused=refused)
    root = sqrt(variances[0] * variances[1])
    r = covariance / root
    if abs(r) >= 1:
        weakest = min((x, y), key=lambda each: variances[(x, y).index(each)])
        refused = too_weak(
            *(moments, weakest.name, f"the noise takes the correlation to {r:.2f}"),
            size=root - abs(covariance),
            noise=float(noise.variance[0]),
        )
        return Estimate(name, refused=refused)
    weights = np.array([[1 / root, -r / 2 / variances[0], -r / 2 / variances[1]]])
    found, n = noise.combine(weights), scope.rows(moments)
    by_noise, by_rows = float(found.variance[0]) / (1 - r * r) ** 2, 1 / max(n - 3, 1)
    total = by_noise + by_rows
    share = by_noise / total if total else 0.0
    law = FisherZ(r, sqrt(total), float(found.kurtosis[0]) * share**2)
    return Estimate(name, r, law, (1 - r * r) * sqrt(total), share)
