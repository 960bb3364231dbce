"""Noise of the covariance under each law: what decides between laws of the same promise.

To first order in the noise, the covariance of columns i and j is ``u' G v`` with u = e_i - mu_i e_0
and v likewise, of the reconciled moments G (`dppca.common.analysis.estimates.noise`): so Laplace
noise is judged *after* its least squares over blocks, which needs no other noise. The figure is the
root mean square over all pairs of columns of different attributes and the squares of numbers, with
values spread evenly.

Limits: it weighs all pairs alike, and knows no components. It is not computed for more than
`MOST_COLUMNS`.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.analysis.study_file import study_from_document
from dppca.common.kernel.errors import RangeError, SettingError, StudyError
from dppca.common.kernel.privacy.laws import every_law
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema.layout import ColumnKind
from dppca.common.kernel.study import Study
from dppca.curator.planning.forecaster import with_privacy

MOST_COLUMNS = 120  # coded; pairs of pairs are weighed, and their number grows fast
CLEARLY = 0.9
"""Part of another law's noise from which on a law is worth a change."""
JOINT_SUM_WEIGHT = 0.75
"""Weight of sums with the least noise of the covariance under a joint law."""
JOINT_BITS = 14
"""Bits of the grid on which the blanket of a joint law costs nearly nothing."""


def can_have(study: Study, law: type[NoiseLaw]) -> bool:
    """Whether a study could have a law, without the weight of squares that another one has."""
    if not law.is_joint:
        return True
    try:
        with_privacy(study, law, study.privacy.epsilon or Decimal(1), Decimal(0)).require_joint()
    except ValueError:
        return False
    return True


def covariance_noise(study: Study, owner_rows: Sequence[int]) -> float | None:
    """Return the noise of an entry of the covariance, in coded units; None if there is no figure.

    There is none without sums, for too many columns, and where the study would be refused.
    """
    layout = study.table.layout
    if not layout.with_sums or not layout.with_products or layout.n_columns > MOST_COLUMNS:
        return None
    try:
        moments = expected_moments(study, calibrate(study), owner_rows)
    except (RangeError, StudyError):
        return None
    if moments.matrix is None:
        return None
    block = moments.block(range(len(layout.groups)))
    vectors = np.eye(layout.n_columns + 1)[1:]
    vectors[:, 0] = -moments.matrix[0, 1:]
    variances = block.variances_between(vectors, vectors)
    attribute = np.asarray(layout.attribute_of)
    counted = np.triu(np.not_equal.outer(attribute, attribute))
    numbers = [place for place, kind in enumerate(layout.kinds) if kind is ColumnKind.NUMERIC]
    counted[numbers, numbers] = True
    return float(np.sqrt(variances[counted].mean())) if counted.any() else None


def compare_laws(
    study: Study, owner_rows: Sequence[int], *, epsilon: Decimal, delta: Decimal | None
) -> dict[str, float]:
    """Return the noise of the covariance by the name of each law that the study could have."""
    found = {}
    for name, law in every_law().items():
        if (law.needs_delta and not delta) or not can_have(study, law):
            continue
        asked = name == study.privacy.mechanism
        other = study if asked else with_privacy(study, law, epsilon, delta or Decimal(0))
        if (noise := covariance_noise(other, owner_rows)) is not None:
            found[name] = noise
    return found


def joint_share(schema: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the joint law with the least noise, and its part of the usual law's, for a draft.

    ``schema`` is valid and has the sum weight and square weight of the usual law. None if no joint
    law is clearly better.
    """

    def noise(law: str, own: Mapping[str, Any]) -> float | None:
        try:
            study = study_from_document(
                {
                    "name": "draft",
                    "owners": ["owner"],
                    "privacy": {"mechanism": law, "epsilon": "1"},
                    "components": {"count": 1},
                    "schema": dict(own),
                }
            )
        except (SettingError, StudyError):
            return None
        return covariance_noise(study, [1000])

    usual = noise("laplace", schema)
    own = {key: value for key, value in schema.items() if key != "square_weight"}
    own |= {"sum_weight": JOINT_SUM_WEIGHT, "resolution_bits": JOINT_BITS}
    if own.get("neighbours") == "added" or own.get("rows_counted", 1) > 1:
        own["sum_weight"] = 1  # which the noised number has, too
        own.pop("count_weight", None)
    shares = [
        (found / usual, name)
        for name, law in every_law().items()
        if usual and law.is_joint and (found := noise(name, own))
    ]
    share, name = min(shares, default=(1.0, ""))
    return (name, share) if share < CLEARLY else None
