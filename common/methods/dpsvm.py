"""DP-SVM: a linear support vector machine that may leave its site.

Output perturbation (`common.methods.weights`): rows of norm at most R get one more column with a
constant a, whose weight, the intercept, is regularised like the others; replacing one row then
moves the exact minimiser by at most

    2 C sqrt(R^2 + a^2)                                                                         (1)

and exact integer noise is added to the weights on a public grid. More than two classes are one
machine per class against the rest, all of them released as one vector: epsilon is divided evenly.

C trades noise against fit: (1) grows with C, while the minimiser grows with C n at most, so C = 1,
usual without noise, drowns in it. ``auto`` takes C from public numbers (`common.methods.penalty`).

Limits: an intercept that is *not* regularised has no such bound (one row can move it by more than
1), so libsvm's machines cannot be released like this. The set of classes is public: name it in
``classes``, or accept that those that occur are known.

Source: Chaudhuri, Monteleoni and Sarwate (2011), algorithm 1, whose Lambda is ``1/(n C)``; the
hinge and the solver's certificate are this project's, ``docs/explanation/privacy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.methods.classifier import Classifier
from common.methods.guarantee import Guarantee, Variant
from common.methods.penalty import AUTO, Penalty, check_penalty
from common.methods.settings import (
    EntropyMaker,
    above_zero,
    count_of,
    delta_of,
    entropy_of,
    epsilon_of,
    label_of,
    norm_of,
    repeatable,
    share_of,
)
from common.methods.table import signs_of
from common.methods.weights import NoisedWeights, norm_name, release_weights


class DPSVM(Classifier):
    """Linear support vector machine with noise on its weights.

    Parameters
    ----------
    epsilon
        Above 0; there is no default.
    delta
        For Gaussian noise; None for Laplace noise and pure epsilon.
    C
        Of the hinge loss, as in libsvm; ``auto`` for a value from public numbers alone.
    row_norm
        R, the public bound on the norm of a row.
    intercept_scaling
        a, the constant of the intercept's column.
    solver_tolerance
        Distance to the exact minimiser that the solver certifies, as a share of (1).
    max_rows_per_person
        Rows that one person may have; the noise grows with it.
    classes
        Public list of all classes; None takes those that occur for public.
    allow_constant
        Whether constant columns are meant.
    entropy
        Maker of the noise's entropy; None for the operating system's.

    Attributes
    ----------
    coef_, intercept_
        Shapes (1, d), (1,) for two classes, else (K, d), (K,).
    C_
        The C that was taken.
    """

    source: ClassVar[str] = "Chaudhuri et al. 2011, algorithm 1, with this project's proof"

    def __init__(
        self,
        *,
        epsilon: object = None,
        delta: object = None,
        C: Penalty = AUTO,
        row_norm: float = 1.0,
        intercept_scaling: float = 1.0,
        solver_tolerance: float = 0.01,
        max_rows_per_person: int = 1,
        classes: Sequence[Any] | None = None,
        allow_constant: bool = False,
        entropy: EntropyMaker | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.C = C
        self.row_norm = row_norm
        self.intercept_scaling = intercept_scaling
        self.solver_tolerance = solver_tolerance
        self.max_rows_per_person = max_rows_per_person
        self.classes = classes
        self.allow_constant = allow_constant
        self.entropy = entropy

    def _check_settings(self) -> None:
        epsilon_of(self.epsilon)
        if self.delta is not None:
            delta_of(self.delta)
        norm_of(self.row_norm, Variant.SOUND)
        check_penalty(self.C)
        above_zero("intercept_scaling", self.intercept_scaling)
        share_of("solver_tolerance", self.solver_tolerance)
        count_of("max_rows_per_person", self.max_rows_per_person)

    def _declared_classes(self) -> Sequence[Any] | None:
        return self.classes

    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        released = release_weights(
            with_constant(rows, self.intercept_scaling),
            signs_of(codes, len(self.classes_)),
            C=self.C,
            radius=math.hypot(self.row_norm, self.intercept_scaling),
            epsilon=epsilon_of(self.epsilon),
            delta=None if self.delta is None else delta_of(self.delta),
            max_rows_per_person=self.max_rows_per_person,
            solver_tolerance=self.solver_tolerance,
            entropy=entropy_of(self.entropy),
        )
        self.C_ = released.C
        self.coef_ = released.weights[:, :-1]
        self.intercept_ = released.weights[:, -1] * self.intercept_scaling
        self.guarantee_ = self._guarantee(released)

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = rows @ self.coef_.T + self.intercept_
        return scores

    def _guarantee(self, released: NoisedWeights) -> Guarantee:
        noise = released.calibration
        return Guarantee(
            method="DP-SVM",
            source=self.source,
            variant=Variant.SOUND,
            label=label_of(self.entropy),
            private="coef_, intercept_, predictions",
            not_private=repeatable(self.entropy).removeprefix("; "),
            epsilon=noise.epsilon,
            delta=noise.delta,
            relation=noise.sensitivity.relation,
            max_rows_per_person=noise.max_rows_per_person,
            sensitivity=released.sensitivity,
            sensitivity_of=f"L2, weights of all machines; noise by {norm_name(noise)}",
            split=split_over(len(released.weights)),
            charge=noise.charge,
            noise=(noise,),
        )


def with_constant(rows: NDArray[np.float64], constant: float) -> NDArray[np.float64]:
    """Rows with one more column, shape (n_rows, d + 1); a new array."""
    return np.column_stack([rows, np.full(len(rows), float(constant))])


def split_over(n_machines: int) -> str:
    """How epsilon is divided over the machines of more than two classes."""
    if n_machines == 1:
        return ""
    return f"one class against the rest: 1/{n_machines} for each of {n_machines} machines"
