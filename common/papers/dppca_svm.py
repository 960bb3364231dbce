"""DPPCA-SVM: a support vector machine on components found under Laplace noise.

As printed, each entry of one triangle of ``A = X^T X / n`` gets Laplace noise of scale

    b = 2 d / (n epsilon)                                                                       (1)

for an L1 sensitivity of 2d/n. That is valid for rows in the unit ball and loose: replacing one row
moves the triangle by at most (d/sqrt(2) + 1)/n (`dppca.common.kernel.privacy.sensitivity`, equation
5), so A' really spends ``epsilon (d/sqrt(2) + 1) / (2d)``. The sound form adds the exact discrete
Laplace for that smaller sensitivity.

Limits: the components are private; the classifier is not
(`dppca.common.papers.base.component_svm`), contrary to the paper's theorem 1.

Source: Huang et al. (2021), algorithm 1 and lemma 1.
"""

from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from dppca.common.analysis.estimators.base.settings import (
    check_rows_per_person,
    parse_epsilon,
    refuse_delta,
)
from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.sensitivity import BallShape, Sensitivity, real_l1
from dppca.common.papers.base.component_svm import ComponentSVM, PublishedNoise


class DPPCASVM(ComponentSVM):
    """DPPCA-SVM, with the parameters and attributes of `ComponentSVM`; it takes no ``delta``."""

    method: ClassVar[str] = "DPPCA-SVM"
    source: ClassVar[str] = "Huang et al. 2021, algorithm 1"

    def _check_delta(self) -> None:
        refuse_delta(self.delta, instead="AGSVM, whose noise is Gaussian")

    def _calibrate(self, sens: Sensitivity, n_rows: int, d: int) -> Calibration:  # noqa: ARG002
        return calibrate_noise(
            LaplaceLaw,
            sens,
            epsilon=parse_epsilon(self.epsilon),
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
        )

    def _published_noise(self, n_rows: int, d: int) -> PublishedNoise:
        epsilon = parse_epsilon(self.epsilon)
        spent = real_l1(BallShape(n_columns=d, with_sums=False)) / (2 * d)
        return PublishedNoise(
            law=LaplaceLaw,
            scale=2 * d / (n_rows * float(epsilon)),
            sensitivity=2 * d / n_rows,
            sensitivity_of="L1 as printed, 2d/n; (d/sqrt(2) + 1)/n holds",
            epsilon=round_up(spent * Fraction(epsilon)),
            delta=Decimal(0),
        )
