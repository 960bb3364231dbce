"""DP-SVM: a linear support vector machine that may leave its site.

Output perturbation (`dppca.common.analysis.estimators.base.weight_noise`): rows of norm at most R
get one more column with a constant a, whose weight, the intercept, is regularised like the others;
replacing one row then moves the exact minimiser by at most

    2 C sqrt(R^2 + a^2)                                                                         (1)

and exact integer noise is added to the weights on a public grid. More than two classes are one
machine per class against the rest, all released as one vector: epsilon is divided evenly. C trades
noise against fit: (1) grows with C, while the minimiser grows with C n at most, so C = 1, usual
without noise, drowns in it. ``auto`` takes C from public numbers
(`dppca.common.analysis.estimators.base.penalty`).

Limits: an intercept that is *not* regularised has no such bound (one row can move it by more than
1), so libsvm's machines cannot be released like this. The set of classes is public: name it in
``classes``, or accept that the classes in the data become known.

Source: Chaudhuri, Monteleoni and Sarwate (2011), algorithm 1, whose Lambda is ``1/(n C)``; the
hinge and the solver's certificate are this project's, ``docs/explanation/privacy.md``.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.cautions import warn_of_drowned_weights
from dppca.common.analysis.estimators.base.classifier import Classifier
from dppca.common.analysis.estimators.base.guarantee import Variant
from dppca.common.analysis.estimators.base.inputs import make_signs
from dppca.common.analysis.estimators.base.penalty import AUTO, Penalty, check_penalty
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_positive,
    check_row_norm,
    check_rows_per_person,
    check_share,
    make_entropy,
    parse_delta,
    parse_epsilon,
)
from dppca.common.analysis.estimators.base.weight_noise import (
    noised_weights,
    plan_weights,
    promise_weights,
    weights_on_grid,
)


@dataclass(kw_only=True, eq=False, repr=False)
class DPSVM(Classifier):
    """Linear support vector machine with noise on its weights.

    Parameters
    ----------
    epsilon
        Above 0; there is no default.
    delta
        For Gaussian noise; None for Laplace noise and pure epsilon.
    max_rows_per_person
        The most rows that one person may have; there is no default. The noise grows with it.
    C
        Weight of the hinge loss, as in libsvm; ``auto`` for a value from public numbers alone.
    row_norm
        R, the public bound on the norm of a row.
    intercept_scaling
        a, the constant of the intercept's column.
    solver_tolerance
        Distance to the exact minimiser that the solver certifies, as a share of (1).
    classes
        Public list of all classes; None treats those in the data as public.
    allow_constant
        Accept constant columns.
    entropy
        Maker of the noise's entropy; None for the operating system's.

    Attributes
    ----------
    coef_, intercept_
        Shapes (1, d), (1,) for two classes, else (K, d), (K,).
    C_
        The C that was used.
    """

    source: ClassVar[str] = "Chaudhuri et al. 2011, algorithm 1, with this project's proof"

    epsilon: object = None
    delta: object = None
    max_rows_per_person: object = None
    C: Penalty = AUTO
    row_norm: float = 1.0
    intercept_scaling: float = 1.0
    solver_tolerance: float = 0.01
    classes: Sequence[Any] | None = None
    allow_constant: bool = False
    entropy: EntropyMaker | None = None

    def _check_settings(self) -> None:
        parse_epsilon(self.epsilon)
        if self.delta is not None:
            parse_delta(self.delta)
        check_row_norm(self.row_norm, Variant.SOUND)
        check_penalty(self.C)
        check_positive("intercept_scaling", self.intercept_scaling)
        check_share("solver_tolerance", self.solver_tolerance)
        check_rows_per_person(self.max_rows_per_person)

    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        signs = make_signs(codes, len(self.classes_))
        plan = plan_weights(
            rows.shape[1] + 1,
            n_machines=signs.shape[1],
            n_rows=len(rows),
            C=self.C,
            radius=math.hypot(self.row_norm, self.intercept_scaling),
            epsilon=parse_epsilon(self.epsilon),
            delta=None if self.delta is None else parse_delta(self.delta),
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
            solver_tolerance=self.solver_tolerance,
        )
        grid = weights_on_grid(append_constant(rows, self.intercept_scaling), signs, plan)
        warn_of_drowned_weights(self, plan, n_rows=len(rows))
        weights = noised_weights(grid, plan, entropy=make_entropy(self.entropy))
        self.C_ = plan.C
        self.coef_ = weights[:, :-1]
        self.intercept_ = weights[:, -1] * self.intercept_scaling
        self.guarantee_ = promise_weights(
            plan,
            method="DP-SVM",
            source=self.source,
            private="coef_, intercept_, predictions",
            entropy=self.entropy,
        )

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = rows @ self.coef_.T + self.intercept_
        return scores


def append_constant(rows: NDArray[np.float64], constant: float) -> NDArray[np.float64]:
    """Return rows with one more column, shape (n_rows, d + 1); a new array."""
    return np.column_stack([rows, np.full(len(rows), float(constant))])
