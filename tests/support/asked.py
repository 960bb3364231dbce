"""The answers that examples in docstrings of estimates call ``asked``."""

from functools import cache

import numpy as np

from dppca import estimates
from dppca.common.analysis.estimates.face import Estimates
from dppca.common.kernel.attestation.results import Published
from tests.support.coverage import PEOPLE, Cell, coded_people
from tests.support.pooling import pooled_result


@cache
def asked() -> Estimates:
    """Answers from 6,000 rows of three owners with seeded noise, epsilon 3."""
    study = Cell("gaussian", "owner", 3, "3").study(PEOPLE)
    parts = np.array_split(coded_people(study)[:6000], 3)
    return estimates(Published(study, pooled_result(study, parts, seed=1)))
