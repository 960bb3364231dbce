"""AG-SVM: a support vector machine on components found under Gaussian noise ("Analyze Gauss").

As printed, each entry of one triangle of ``A = X^T X / n`` gets Gaussian noise of deviation

    D sqrt(2 ln(1.25/delta)) / epsilon,      D = 1/n                                            (1)

where D is the L2 sensitivity to *adding* a row of norm 1 and the formula is proved for epsilon < 1.
Replacing a row moves the triangle, as part of the matrix, by at most sqrt(2)/n. The printed noise,
being Gaussian, satisfies zCDP of ``rho = 1/(n deviation)^2``; the guarantee states the epsilon of
that rho at delta. The sound form adds the discrete Gaussian for sqrt(2)/n.

Limits: the components are private, the classifier is not
(`dppca.common.papers.base.component_svm`).

Source: Dwork, Talwar, Thakurta and Zhang (2014), "Analyze Gauss", algorithm 1, as in Huang et al.
(2021), section 3.4.
"""

import math
from typing import ClassVar

from dppca.common.analysis.estimators.base.settings import (
    check_rows_per_person,
    parse_delta,
    parse_epsilon,
)
from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.privacy.accounting import epsilon_from_rho
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.papers.base.component_svm import ComponentSVM, PublishedNoise


class AGSVM(ComponentSVM):
    """AG-SVM, with the parameters and attributes of `ComponentSVM`; it needs a ``delta``."""

    method: ClassVar[str] = "AG-SVM"
    source: ClassVar[str] = "Huang et al. 2021, section 3.4; Dwork et al. 2014, algorithm 1"

    def _calibrate(self, sens: Sensitivity, n_rows: int, d: int) -> Calibration:  # noqa: ARG002
        return calibrate_noise(
            GaussianLaw,
            sens,
            epsilon=parse_epsilon(self.epsilon),
            delta=parse_delta(self.delta),
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
        )

    def _published_noise(self, n_rows: int, d: int) -> PublishedNoise:  # noqa: ARG002
        epsilon, delta = parse_epsilon(self.epsilon), parse_delta(self.delta)
        factor = math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)
        return PublishedNoise(
            law=GaussianLaw,
            scale=factor / n_rows,
            sensitivity=1 / n_rows,
            sensitivity_of="L2 as printed, 1/n, for adding a row; sqrt(2)/n for replacing one",
            epsilon=epsilon_from_rho(round_up(1 / factor**2), delta),
            delta=delta,
        )
