"""MOD-SuLQ-SVM: a support vector machine on components found under ample Gaussian noise.

Each entry of one triangle of ``A = X^T X / n`` gets Gaussian noise of deviation

    beta = (d+1)/(n epsilon) sqrt(2 ln((d^2 + d)/(2 delta sqrt(2 pi)))) + 1/(n sqrt(epsilon))   (1)

Replacing a row of norm at most 1 moves the triangle by at most sqrt(2)/n in L2, so the noise
satisfies zCDP of ``rho = 1/(n beta)^2``: the claim on A' holds by a wide margin. Both forms report
the epsilon of that rho at delta. The sound form draws the discrete Gaussian of deviation beta,
rounded down to the grid, and is charged rho.

Limits: the components are private, the classifier is not
(`dppca.common.papers.base.component_svm`).

Source: Chaudhuri, Sarwate and Sinha (2013), "A near-optimal algorithm for differentially-private
principal components", algorithm 1, as in Huang et al. (2021), section 3.4.
"""

import math
from decimal import Decimal
from typing import ClassVar

from dppca.common.analysis.estimators.base.settings import (
    check_rows_per_person,
    parse_delta,
    parse_epsilon,
)
from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.privacy.accounting import epsilon_from_rho
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.mechanisms import Calibration, fixed_noise
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.papers.base.component_svm import ComponentSVM, PublishedNoise


class MODSuLQSVM(ComponentSVM):
    """MOD-SuLQ-SVM, with the parameters and attributes of `ComponentSVM`; it needs a ``delta``.

    ``epsilon`` sets the noise, as printed; ``guarantee_.epsilon`` is the cost of that noise.
    """

    method: ClassVar[str] = "MOD-SuLQ-SVM"
    source: ClassVar[str] = "Huang et al. 2021, section 3.4; Chaudhuri et al. 2013, algorithm 1"

    def _calibrate(self, sens: Sensitivity, n_rows: int, d: int) -> Calibration:  # noqa: ARG002
        return fixed_noise(
            GaussianLaw,
            sens,
            scale=Decimal(f"{self._factor(d):.15e}"),
            delta=parse_delta(self.delta),
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
            nominal_epsilon=parse_epsilon(self.epsilon),
        )

    def _published_noise(self, n_rows: int, d: int) -> PublishedNoise:
        delta = parse_delta(self.delta)
        factor = self._factor(d)
        return PublishedNoise(
            law=GaussianLaw,
            scale=factor / n_rows,
            sensitivity=math.sqrt(2) / n_rows,
            sensitivity_of="none printed; L2 of one triangle of X^T X / n",
            epsilon=epsilon_from_rho(round_up(1 / factor**2), delta),
            delta=delta,
        )

    def _factor(self, d: int) -> float:
        """Return n beta, equation (1)."""
        epsilon, delta = float(parse_epsilon(self.epsilon)), float(parse_delta(self.delta))
        entries = (d * d + d) / (2 * delta * math.sqrt(2 * math.pi))
        wide = (d + 1) / epsilon * math.sqrt(2 * math.log(entries))
        return wide + 1 / math.sqrt(epsilon)
