"""Correlations r = c / s, of a covariance and the root s of two variances.

Sampling is Fisher's ``1 / (n - 3)``, normal theory; the noise of c and s is exact to first order.

Of people, those with few rows may vary otherwise, and the influence of a row on r is taken to be
the most that it can be. With standardised x and y, e = y - r x and f = x - r y, it is
``(x e + y f) / 2``, so

    E[((x e + y f) / 2)^2] <= (E[x^2 e^2] + E[y^2 f^2]) / 2
                           <= (max x^2 + max y^2) (1 - r^2) / 2,                               (1)

where the bounds of the schema say how large x and y can be.
"""

from math import sqrt

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate
from dppca.common.analysis.estimates.intervals import Correlation
from dppca.common.analysis.estimates.noise import form
from dppca.common.analysis.estimates.release import ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope, too_weak
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.units import Person


def estimate_correlation(
    moments: ReconciledMoments, scope: EstimateScope, x: Variable, y: Variable
) -> Estimate:
    """Estimate the correlation of two numbers or indicators of different attributes."""
    for each in (x, y):
        each.require_complete()
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
    weights = np.array([[1 / root, 0, 0], [0, 0.5 / variances[0], 0.5 / variances[1]]])
    found, n = noise.combine(weights), scope.rows(moments)
    excess = float(found.combine(np.array([[1.0, -r]])).kurtosis[0])
    sampling = 1 / max(n - 3, 1)
    if isinstance(moments.study.unit, Person):
        layout, far = moments.study.table.layout, 0.0
        for each, v, variance in zip(
            (x, y), (x.coded(block), y.coded(block)), variances, strict=True
        ):
            ends = np.array(each.ends(layout)) - block.value(one, v)
            far += float((ends**2).max()) / variance
        sampling *= max(1.0, far / 2 / (1 - r * r))  # over Fisher's (1 - r^2)^2
    law = Correlation(r, found.covariance, sampling, excess)
    return Estimate(name, r, law, law.se, law.noise_share)
