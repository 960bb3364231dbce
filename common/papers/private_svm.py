"""PrivateSVM: random Fourier features and Laplace noise on the weights.

Rows become pairs of features of a random, public basis::

    phi(x) = (cos u_1 x, sin u_1 x, ..., cos u_m x, sin u_m x) / sqrt(m)                        (1)
    u_j ~ N(0, 2 gamma I)

so that ``|phi(x)| = 1`` exactly for every x, and ``phi(x) phi(z)`` approximates the kernel
``exp(-gamma |x - z|^2)``. A linear machine without intercept is trained on them; replacing one row
moves its weights by at most 2 C in L2 (`dppca.common.analysis.estimators.base.weight_noise`,
equation 1, with r = 1) and so by at most ``2 C sqrt(2 m)`` in L1. This bound assumes that the
features of all other rows are unchanged, so (1) is computed as a function of one row, to the last
bit (`dppca.common.kernel.moments.rowwise`). As printed the Laplace noise has scale

    2^2.5 C sqrt(m) / epsilon                                                                   (2)

for libsvm's C (``2^2.5 C_R sqrt(m) / (epsilon n)`` for the authors' objective, with C = C_R/n):
twice the necessary scale. The claim holds, except for floating-point noise and a solver without a
certificate; the sound form avoids both, has half the noise, and may leave.

Limits: no intercept. The basis must not depend on rows: gamma is a number, never scikit-learn's
``scale``. `RBFSampler`'s features have norms up to sqrt(2) and do not satisfy these bounds.

Source: Rubinstein, Bartlett, Huang and Taft (2012), "Learning in a Large Function Space", algorithm
2; the baseline of Zhang et al. (2019), section V.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state

from dppca.common.analysis.estimators.base.cautions import warn_of_drowned_weights
from dppca.common.analysis.estimators.base.classifier import Gamma, resolve_gamma
from dppca.common.analysis.estimators.base.guarantee import Guarantee, promise_as_printed
from dppca.common.analysis.estimators.base.hinge import solve_hinge
from dppca.common.analysis.estimators.base.inputs import check_new_rows, make_signs
from dppca.common.analysis.estimators.base.penalty import (
    AUTO,
    Penalty,
    check_penalty,
    published_penalty,
)
from dppca.common.analysis.estimators.base.settings import (
    check_positive_int,
    check_rows_per_person,
    check_share,
    make_entropy,
    parse_delta,
    parse_epsilon,
)
from dppca.common.analysis.estimators.base.weight_noise import (
    WeightPlan,
    count_machines,
    noised_weights,
    plan_weights,
    promise_weights,
    split_over,
    weights_on_grid,
)
from dppca.common.kernel.moments.rowwise import cos_and_sin, products
from dppca.common.papers.base.releasable import ReleasableClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSVM(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ReleasableClassifier,
):
    """Support vector machine on random Fourier features.

    Parameters
    ----------
    epsilon, delta, max_rows_per_person, variant, classes, allow_constant, entropy, random_state
        As in `ReleasableClassifier`; the published form takes no delta, and ``random_state`` also
        seeds the public basis.
    n_pairs
        m, pairs of features.
    C, gamma
        C is the weight of the hinge loss, as in `DPSVM` (as printed ``auto`` is 1, libsvm's
        default); gamma is the kernel's, a number or ``auto`` for one over d.
    solver_tolerance
        As in `DPSVM`.

    Attributes
    ----------
    frequencies_
        u, shape (m, d); public.
    coef_
        Shape (1, 2m), or (K, 2m).
    C_
        The C that was used.
    """

    source: ClassVar[str] = "Rubinstein et al. 2012, algorithm 2; Zhang et al. 2019, section V"

    n_pairs: int = 100
    C: Penalty = AUTO
    gamma: Gamma = "auto"
    solver_tolerance: float = 0.01

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return features (1), shape (n_rows, 2m), of each row alone: private only if X is."""
        return self._features(check_new_rows(self, X))

    @property
    def _n_features_out(self) -> int:
        return 2 * len(self.frequencies_)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_positive_int("n_pairs", self.n_pairs)
        check_penalty(self.C)
        check_share("solver_tolerance", self.solver_tolerance)

    def _promise(
        self,
        n_rows: int,
        d: int,
        n_classes: int,
        n_components: int | None = None,  # noqa: ARG002
    ) -> Guarantee:
        resolve_gamma(self.gamma, d)
        return promise_weights(
            self._weight_plan(count_machines(n_classes), n_rows),
            method="PrivateSVM",
            source=self.source,
            private="coef_, predictions; frequencies_ do not depend on rows",
            entropy=self.entropy,
        )

    def _weight_plan(self, n_machines: int, n_rows: int) -> WeightPlan:
        return plan_weights(
            2 * self.n_pairs,
            n_machines=n_machines,
            n_rows=n_rows,
            C=self.C,
            radius=1.0,
            epsilon=parse_epsilon(self.epsilon),
            delta=None if self.delta is None else parse_delta(self.delta),
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
            solver_tolerance=self.solver_tolerance,
        )

    def _caution(self, n_rows: int, d: int) -> None:  # noqa: ARG002
        plan = self._weight_plan(count_machines(len(self.classes_)), n_rows)
        warn_of_drowned_weights(self, plan, n_rows=n_rows)

    def _choose_basis(self, d: int) -> Any:
        """Set the public basis and return the generator in its state after the draw."""
        rng = check_random_state(self.random_state)
        width = math.sqrt(2 * resolve_gamma(self.gamma, d))
        self.frequencies_ = rng.normal(scale=width, size=(self.n_pairs, d))
        return rng

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = self._features(rows) @ self.coef_.T
        return scores

    def _features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        pairs = np.concatenate(cos_and_sin(products(rows, self.frequencies_)), axis=1)
        features: NDArray[np.float64] = pairs / math.sqrt(self.n_pairs)
        return features

    def _prepare(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> _Prepared:
        self._choose_basis(rows.shape[1])
        signs = make_signs(codes, len(self.classes_))
        plan = self._weight_plan(signs.shape[1], len(rows))
        return _Prepared(len(rows), plan, weights_on_grid(self._features(rows), signs, plan))

    def _draw(self, prepared: _Prepared) -> None:
        plan = prepared.plan
        self.coef_ = noised_weights(prepared.grid, plan, entropy=make_entropy(self.entropy))
        self.C_ = plan.C
        self.guarantee_ = self._promise(
            prepared.n_rows, self.frequencies_.shape[1], len(self.classes_)
        )

    def _fit_published(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        rng = self._choose_basis(rows.shape[1])
        features, signs = self._features(rows), make_signs(codes, len(self.classes_))
        epsilon = parse_epsilon(self.epsilon)
        n_machines = signs.shape[1]
        self.C_ = published_penalty(self.C)
        change = 2.0 * self.C_
        weights = np.vstack(
            [
                solve_hinge(
                    sign[:, None] * features,
                    C=self.C_,
                    gap=(self.solver_tolerance * change) ** 2 / 2,
                ).weights
                for sign in signs.T
            ]
        )
        printed = 2**2.5 * self.C_ * math.sqrt(self.n_pairs)
        scale = printed * n_machines / float(epsilon)
        self.coef_ = weights + rng.laplace(scale=scale, size=weights.shape)
        self.guarantee_ = promise_as_printed(
            method="PrivateSVM",
            source=self.source,
            private="coef_, predictions",
            not_private="",
            epsilon=epsilon,
            delta=Decimal(0),
            claimed_epsilon=epsilon,
            sensitivity=printed,
            sensitivity_of="L1 as printed, of the weights of one machine; half of it holds",
            split=split_over(n_machines),
        )


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The noise, and weights on its grid (K D,) without it: not private."""

    n_rows: int
    plan: WeightPlan
    grid: NDArray[np.int64]
