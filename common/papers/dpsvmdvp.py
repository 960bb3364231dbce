"""DPSVMDVP: noise on the dual variables of a support vector machine. Published form only.

A machine with multipliers alpha is trained by SMO, and each support vector's multiplier gets
Laplace noise with a part of epsilon that follows its error E_i = f(x_i) - y_i::

    alpha_i* = alpha_i + Lap(C / (sqrt(l) epsilon_i))                                           (1)
    epsilon_i = epsilon |E_i| / sum_j |E_j|

for the l support vectors. As printed E_i has a sign, so about half of the epsilon_i are negative
and give no valid scale: the absolute value is our reading. ``support="free"`` restricts noise and l
to multipliers strictly between 0 and C, as in the listing; there E_i is zero up to the solver's
tolerance, so epsilon is divided by rounding residue. ``support="all"`` takes all support vectors,
as in the text.

**Nothing about the result is private.** It contains its support vectors, raw rows, in the clear;
``C/sqrt(l)`` is not a sensitivity (one row can move many multipliers, and the set of support
vectors with them); E_i depends on the rows that it should protect. No sound form is known.

Source: Zhang, Hao and Wang (2019), algorithm 2, equations 15 to 17.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from dppca.common.analysis.estimators.base.classifier import Classifier, Gamma, resolve_gamma
from dppca.common.analysis.estimators.base.guarantee import promise_as_printed
from dppca.common.analysis.estimators.base.inputs import make_signs
from dppca.common.analysis.estimators.base.settings import (
    check_positive,
    parse_epsilon,
    refuse_delta,
)
from dppca.common.analysis.estimators.base.weight_noise import split_over
from dppca.common.kernel.errors import SettingError

_TOLERANCE = 1e-3  # of libsvm: its default
_SMALLEST_ERROR = float(
    np.finfo(np.float64).eps
)  # an error of exactly 0 would require infinite noise


@dataclass(kw_only=True, eq=False, repr=False)
class DPSVMDVP(Classifier):
    """DPSVMDVP, as printed.

    Parameters
    ----------
    epsilon
        Above 0; there is no default. A delta is refused.
    support
        Support vectors that get noise: ``all`` or ``free``.
    C, gamma
        Settings of the RBF machine; gamma a number or ``auto`` for one over d.
    allow_constant
        Accept constant columns.
    random_state
        Seeds the noise.

    Attributes
    ----------
    support_vectors_
        Support vectors of each machine, a list of arrays (l, d): raw rows.
    dual_coef_
        Noised ``y_i alpha_i`` of each machine, a list of arrays (l,).
    intercept_
        Shape (1,), or (K,).
    """

    source: ClassVar[str] = "Zhang et al. 2019, algorithm 2, absolute errors"

    epsilon: object = None
    delta: object = None
    support: str = "all"
    C: float = 1.0
    gamma: Gamma = "auto"
    allow_constant: bool = False
    random_state: Any = None

    def _check_settings(self) -> None:
        parse_epsilon(self.epsilon)
        refuse_delta(self.delta, instead="another method")
        check_positive("C", self.C)
        if self.support not in ("all", "free"):
            raise SettingError(f"support is {self.support!r}; it must be 'all' or 'free'")

    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        signs = make_signs(codes, len(self.classes_))
        rng = check_random_state(self.random_state)
        self.gamma_ = resolve_gamma(self.gamma, rows.shape[1])
        epsilon = float(parse_epsilon(self.epsilon)) / signs.shape[1]
        svms = [
            SVC(kernel="rbf", C=self.C, gamma=self.gamma_, tol=_TOLERANCE).fit(rows, sign)
            for sign in signs.T
        ]
        self.support_vectors_ = [svm.support_vectors_ for svm in svms]
        self.dual_coef_ = [
            self._noised(svm, rows[svm.support_], sign[svm.support_], epsilon, rng)
            for svm, sign in zip(svms, signs.T, strict=True)
        ]
        self.intercept_ = np.concatenate([svm.intercept_ for svm in svms])
        self.guarantee_ = promise_as_printed(
            method="DPSVMDVP",
            source=self.source,
            private="",
            not_private="everything: the support vectors are raw rows",
            claimed_epsilon=parse_epsilon(self.epsilon),
            sensitivity=self.C / math.sqrt(max(len(each) for each in self.dual_coef_)),
            sensitivity_of="of one multiplier as printed, C/sqrt(l); it bounds nothing",
            split=split_over(len(svms)),
        )

    def _noised(
        self,
        svm: Any,
        rows: NDArray[np.float64],
        signs: NDArray[np.float64],
        epsilon: float,
        rng: np.random.RandomState,
    ) -> NDArray[np.float64]:
        alpha = np.abs(svm.dual_coef_[0])
        chosen = np.ones(len(alpha), dtype=bool) if self.support == "all" else alpha < self.C
        n_chosen = int(chosen.sum())
        if n_chosen:
            errors = np.abs(svm.decision_function(rows[chosen]) - signs[chosen])
            shares = np.maximum(errors, _SMALLEST_ERROR)
            parts = epsilon * shares / shares.sum()
            alpha[chosen] += rng.laplace(scale=self.C / (math.sqrt(n_chosen) * parts))
        noised: NDArray[np.float64] = alpha * signs
        return noised

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = [
            rbf_kernel(rows, vectors, gamma=self.gamma_) @ dual + intercept
            for vectors, dual, intercept in zip(
                self.support_vectors_, self.dual_coef_, self.intercept_, strict=True
            )
        ]
        return np.column_stack(scores)
