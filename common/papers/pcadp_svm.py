"""PCA-DPSVM: principal components first, noise on the classifier's weights.

As printed: V_k from ``X^T X / n`` without noise, a support vector machine on ``X V_k``, and Laplace
noise of scale

    2 C n d / epsilon                                                                           (1)

on its weights w. **Nothing is private in that form**: V_k leaves without noise, and so does the
intercept. And the noise on w is so large (2.9e7 for C = 1, n = 58509, d = 49, epsilon = 0.2) that
no signal is left in the weights: the printed algorithm cannot give the printed accuracies.

Sound: V_k from a second moment released with a share of epsilon, as in `DPPCASVM` (or `AGSVM` if a
delta is given), then the weights of a machine on ``X V_k`` with a regularised intercept, released
with the rest, as in `DPSVM`. Projected rows are no longer than the rows, so the sensitivity is ``2
C sqrt(R^2 + a^2)``. Both parts are private, so the model may leave.

Limits: those of `DPSVM` and `ComponentSVM`. Basic composition adds the two parts up.

Source: Huang et al. (2021), algorithm 2 and lemma 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from dppca.common.analysis.estimators.base.cautions import warn_of_drowned_weights
from dppca.common.analysis.estimators.base.classifier import ProjectionMixin
from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant, promise_as_printed
from dppca.common.analysis.estimators.base.inputs import make_signs
from dppca.common.analysis.estimators.base.penalty import (
    AUTO,
    Penalty,
    check_penalty,
    published_penalty,
)
from dppca.common.analysis.estimators.base.projection import (
    check_rule,
    check_rule_fits,
    project,
    select_components,
)
from dppca.common.analysis.estimators.base.settings import (
    check_positive,
    check_positive_int,
    check_row_norm,
    check_rows_per_person,
    check_share,
    check_variant,
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
    require_certifiable,
    split_over,
    weights_on_grid,
)
from dppca.common.analysis.estimators.dpsvm import append_constant
from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.kernel.moments.rowwise import products
from dppca.common.kernel.privacy.laws import choose_law
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.papers.base.releasable import ReleasableClassifier
from dppca.common.papers.base.second_moment import plan_second_moment, release_second_moment


@dataclass(kw_only=True, eq=False, repr=False)
class PCADPSVM(ProjectionMixin, ReleasableClassifier):
    """PCA-DPSVM.

    Parameters
    ----------
    epsilon, delta, max_rows_per_person, variant, classes, allow_constant, entropy, random_state
        As in `ReleasableClassifier`; the published form takes no delta.
    components_share
        Share of epsilon (and delta) that the sound form spends on the components.
    contribution_rate, n_components
        Number of components: by a share of the eigenvalues' sum, or directly.
    C, row_norm, intercept_scaling, solver_tolerance
        As in `DPSVM`. The published form has libsvm's own intercept, accepts ``row_norm=None``, and
        its ``auto`` is 1, libsvm's default.
    resolution_bits
        As in `ComponentSVM`.

    Attributes
    ----------
    components_
        Shape (k, d).
    coef_, intercept_
        In the basis of the components: shapes (1, k), (1,), or (K, k), (K,).
    C_
        The C that was used.
    """

    source: ClassVar[str] = "Huang et al. 2021, algorithm 2"

    components_share: float = 0.5
    contribution_rate: float = 0.85
    n_components: int | None = None
    C: Penalty = AUTO
    row_norm: float | None = 1.0
    intercept_scaling: float = 1.0
    solver_tolerance: float = 0.01
    resolution_bits: int = 10

    def _check_settings(self) -> None:
        super()._check_settings()
        check_share("components_share", self.components_share)
        check_rule(self.contribution_rate, self.n_components)
        check_row_norm(self.row_norm, check_variant(self.variant))
        check_penalty(self.C)
        check_positive("intercept_scaling", self.intercept_scaling)
        check_share("solver_tolerance", self.solver_tolerance)

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (
            project(rows, self.components_) @ self.coef_.T + self.intercept_
        )
        return scores

    def _promise(
        self, n_rows: int, d: int, n_classes: int, n_components: int | None = None
    ) -> Guarantee:
        check_rule_fits(self.n_components, d)
        moment = plan_second_moment(
            d,
            n_rows=n_rows,
            resolution_bits=check_positive_int("resolution_bits", self.resolution_bits),
            calibrate=self._calibrate,
        )
        # At most d - 1 components: no smaller number costs or asks for more.
        weights = self._weight_plan(
            d if n_components is None else n_components + 1,
            n_machines=count_machines(n_classes),
            n_rows=n_rows,
        )
        if n_components is None:
            require_certifiable(weights, n_rows=n_rows)
        return promise_weights(
            weights,
            method="PCA-DPSVM",
            source=self.source,
            private="components_, eigenvalues_, coef_, intercept_, predictions",
            entropy=self.entropy,
            before=(moment,),
            split=f"{self.components_share} for the components, the rest for the weights",
        )

    def _prepare(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> _Prepared:
        n_rows, d = rows.shape
        self._promise(n_rows, d, len(self.classes_))
        return _Prepared(rows, make_signs(codes, len(self.classes_)))

    def _draw(self, prepared: _Prepared) -> None:
        rows, signs = prepared.rows, prepared.signs
        entropy = make_entropy(self.entropy)
        second = release_second_moment(
            rows,
            row_norm=check_row_norm(self.row_norm, Variant.SOUND),
            resolution_bits=check_positive_int("resolution_bits", self.resolution_bits),
            calibrate=self._calibrate,
            entropy=entropy,
        )
        self._keep(second.matrix, signed=False)
        plan = self._weight_plan(
            len(self.components_) + 1, n_machines=signs.shape[1], n_rows=len(rows)
        )
        projected = products(rows, self.components_)  # each row on its own, as the proof requires
        grid = weights_on_grid(append_constant(projected, self.intercept_scaling), signs, plan)
        weights = noised_weights(grid, plan, entropy=entropy)
        self.C_ = plan.C
        self.coef_ = weights[:, :-1]
        self.intercept_ = weights[:, -1] * self.intercept_scaling
        n_rows, d = rows.shape
        self.guarantee_ = self._promise(n_rows, d, len(self.classes_), len(self.components_))

    def _caution(self, n_rows: int, d: int) -> None:  # noqa: ARG002
        machines = count_machines(len(self.classes_))
        fewest = self._weight_plan(2, n_machines=machines, n_rows=n_rows)  # of one component
        warn_of_drowned_weights(self, fewest, n_rows=n_rows)

    def _calibrate(self, sens: Sensitivity) -> Calibration:
        (epsilon, delta), _ = self._parts()
        k = check_rows_per_person(self.max_rows_per_person)
        return calibrate_noise(
            choose_law(None, delta), sens, epsilon=epsilon, delta=delta, max_rows_per_person=k
        )

    def _weight_plan(self, D: int, *, n_machines: int, n_rows: int) -> WeightPlan:
        _, (epsilon, delta) = self._parts()
        return plan_weights(
            D,
            n_machines=n_machines,
            n_rows=n_rows,
            C=self.C,
            radius=math.hypot(check_row_norm(self.row_norm, Variant.SOUND), self.intercept_scaling),
            epsilon=epsilon,
            delta=delta,
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
            solver_tolerance=self.solver_tolerance,
        )

    def _fit_published(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        n_rows, d = rows.shape
        signs = make_signs(codes, len(self.classes_))
        self._keep(rows.T @ rows / n_rows, signed=True)
        self.C_ = published_penalty(self.C)
        # Each machine of several gets its part of epsilon.
        scale = 2.0 * self.C_ * n_rows * d * signs.shape[1] / float(parse_epsilon(self.epsilon))
        rng = check_random_state(self.random_state)
        projected = project(rows, self.components_)
        svms = [SVC(kernel="linear", C=self.C_).fit(projected, sign) for sign in signs.T]
        weights = np.vstack([svm.coef_ for svm in svms])
        self.coef_ = weights + rng.laplace(scale=scale, size=weights.shape)
        self.intercept_ = np.concatenate([svm.intercept_ for svm in svms])
        self.guarantee_ = promise_as_printed(
            method="PCA-DPSVM",
            source=self.source,
            private="",
            not_private="everything: components_ and intercept_ have no noise at all",
            claimed_epsilon=parse_epsilon(self.epsilon),
            sensitivity=2.0 * self.C_ * n_rows * d,
            sensitivity_of="L1 as printed, 2Cnd, of the weights alone",
            split=split_over(len(svms)),
        )

    def _keep(self, second: NDArray[np.float64], *, signed: bool) -> None:
        parts = decompose(second)
        self.eigenvalues_ = parts.eigenvalues
        self.components_ = select_components(
            parts,
            contribution_rate=self.contribution_rate,
            n_components=self.n_components,
            signed=signed,
        )

    def _parts(self) -> tuple[tuple[Decimal, Decimal | None], tuple[Decimal, Decimal | None]]:
        """Epsilon and delta of the components and of the weights; exact sums."""
        epsilon = parse_epsilon(self.epsilon)
        share = Decimal(str(self.components_share))
        if self.delta is None:
            return (epsilon * share, None), (epsilon - epsilon * share, None)
        delta = parse_delta(self.delta)
        return (epsilon * share, delta * share), (epsilon - epsilon * share, delta - delta * share)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Rows (n, d) and signs (n, K), not private."""

    rows: NDArray[np.float64]
    signs: NDArray[np.float64]
