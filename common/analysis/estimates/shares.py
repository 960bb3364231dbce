"""Estimates of shares (`dppca.common.analysis.estimates.share_sets` has their law)."""

from dataclasses import replace
from math import sqrt

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate
from dppca.common.analysis.estimates.release import Linear
from dppca.common.analysis.estimates.share_sets import ShareSet


def ratio_of_shares(name: str, found: Linear, rows: float) -> Estimate:
    """Estimate the share A / B of a label in a group, from shares (A, B) of all rows."""
    above, below = map(float, found.values)
    law = ShareSet((above, below), found.noise.covariance, rows)
    if not below:
        return Estimate(name, None, law)
    noise, sampling = law.variance()
    total = noise + sampling
    share = noise / total if total else 0.0
    against = found.noise.combine(np.array([[1.0, -min(max(above / below, 0.0), 1.0)]]))
    law = replace(law, kurtosis=float(against.kurtosis[0]) * share**2)
    return Estimate(name, above / below, law, sqrt(total), share)


def share_of(name: str, found: Linear, rows: float) -> Estimate:
    """Estimate one share of ``rows`` independent rows: the group is all of them."""
    noise = found.noise
    both = np.vstack([noise.contributions, np.zeros_like(noise.contributions)])
    of_all = Linear(np.append(found.values, 1.0), replace(noise, contributions=both))
    return ratio_of_shares(name, of_all, rows)
