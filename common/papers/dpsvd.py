"""DPSVD: noise on the rows themselves, then singular vectors, then a support vector machine.

As printed: ``D + N`` with Gaussian entries of deviation

    beta = sqrt(2 ln(1.25/delta)) / epsilon                                                     (1)

its first k right singular vectors V_k, and an RBF machine on ``D V_k``. With the singular values s,
k is the smallest that reaches the contribution rate c,

    s_1 + ... + s_k >= c (s_1 + ... + s_d)                                                      (2)

(our reading: the paper writes the rate for eigenvalues and runs an SVD; by the squares of s two
columns fewer are kept on ``splice``, and table 4 is missed by half a point more).

V_k is private (for rows in the unit ball), but at a larger epsilon than claimed, because
*replacing* a row moves D by up to 2 and not 1. The machine is not: it is trained on raw rows in a
private basis. And V_k is uninformative: at epsilon = 0.1, beta is 53 to 60 and any rotation would
do as well. Compare every result of this form with a random rotation as control.

Sound: ``D + N`` by the exact discrete Gaussian for a sensitivity of 2 is itself a released data
set, each row private on its own. Labels are part of a row: randomised response keeps or replaces
each one (`dppca.common.papers.base.randomized_response`). The machine is trained on noised rows and
noised labels, so it may leave, at (epsilon, delta) plus label_epsilon. Without a label_epsilon it
is trained on the true labels and is `site-only`.

Limits: noise on every entry of every row is the most expensive way to release anything.

Source: Sun, Yang and Li (2022), "DPSVD", algorithm 1, lemma 1.
"""

import math
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dppca.common.analysis.estimators.base.classifier import (
    Gamma,
    ProjectionMixin,
    make_svm,
    svm_scores,
)
from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant, promise_as_printed
from dppca.common.analysis.estimators.base.projection import (
    check_rule,
    check_rule_fits,
    project,
    select_components,
)
from dppca.common.analysis.estimators.base.settings import (
    check_row_norm,
    check_rows_per_person,
    check_variant,
    choose_label,
    describe_repeatability,
    make_entropy,
    parse_delta,
    parse_epsilon,
)
from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.kernel.documents.amounts import round_up
from dppca.common.kernel.privacy.accounting import PrivacyCost, epsilon_from_rho
from dppca.common.kernel.privacy.labels import Label
from dppca.common.papers.base.noised_rows import plan_rows, release_rows
from dppca.common.papers.base.randomized_response import randomised_response
from dppca.common.papers.base.releasable import ReleasableClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class DPSVD(ProjectionMixin, ReleasableClassifier):
    """DPSVD.

    Parameters
    ----------
    epsilon, delta, max_rows_per_person, variant, classes, allow_constant, entropy, random_state
        As in `ReleasableClassifier`; epsilon and delta, both required, are for the rows.
    label_epsilon
        Additional budget of the labels; None trains on the true ones, and the model must stay.
    contribution_rate, n_components, kernel, C, gamma, row_norm
        As in `ComponentSVM`.

    Attributes
    ----------
    noised_rows_
        ``D + N``, shape (n_rows, d).
    noised_labels_
        Shape (n_rows,); absent without a label_epsilon.
    components_
        V_k as rows, shape (k, d).
    machine_
        The classifier, scikit-learn's; None if all (noised) labels are equal.
    only_
        Code of that label, else None.
    """

    source: ClassVar[str] = "Sun et al. 2022, algorithm 1"

    label_epsilon: object = None
    contribution_rate: float = 0.9
    n_components: int | None = None
    kernel: str = "rbf"
    C: float = 1.0
    gamma: Gamma = "auto"
    row_norm: float | None = 1.0

    def _check_settings(self) -> None:
        variant = check_variant(self.variant)
        parse_epsilon(self.epsilon)
        parse_delta(self.delta)
        if self.label_epsilon is not None:
            parse_epsilon(self.label_epsilon, name="label_epsilon")
            check_variant(variant, allowed=(Variant.SOUND,))
        check_rule(self.contribution_rate, self.n_components)
        check_rows_per_person(self.max_rows_per_person)
        check_row_norm(self.row_norm, variant)

    def _promise(
        self,
        n_rows: int,
        d: int,
        n_classes: int,  # noqa: ARG002
        n_components: int | None = None,  # noqa: ARG002
    ) -> Guarantee:
        check_rule_fits(self.n_components, d)
        make_svm(self.kernel, C=self.C, gamma=self.gamma, n_features=d)
        noise = plan_rows(
            d,
            n_rows=n_rows,
            epsilon=parse_epsilon(self.epsilon),
            delta=parse_delta(self.delta),
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
        )
        with_labels = self.label_epsilon is not None
        labels = self._label_epsilon()
        exposed = "machine_, scores and predictions: the classifier is trained on the true labels"
        return Guarantee(
            method="DPSVD",
            source=self.source,
            variant=Variant.SOUND,
            label=choose_label(self.entropy) if with_labels else Label.SITE_ONLY,
            private="noised_rows_, components_"
            + (", noised_labels_, machine_, predictions" if with_labels else ""),
            not_private=("" if with_labels else exposed) + describe_repeatability(self.entropy),
            epsilon=noise.epsilon + labels,
            delta=noise.delta,
            relation=noise.sensitivity.relation,
            max_rows_per_person=noise.factor,
            sensitivity=2.0 * check_row_norm(self.row_norm, Variant.SOUND),
            sensitivity_of="L2, the table of rows",
            split=f"{noise.epsilon} for the rows, {labels} for the labels" if with_labels else "",
            charge=noise.charge + PrivacyCost(epsilon=labels, rho=Decimal(0)),
            noise=(noise,),
        )

    def _label_epsilon(self) -> Decimal:
        """Return epsilon of the labels; 0 if they are not released."""
        if self.label_epsilon is None:
            return Decimal(0)
        return parse_epsilon(self.label_epsilon, name="label_epsilon")

    def _prepare(
        self, rows: NDArray[np.float64], codes: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        n_rows, d = rows.shape
        self._promise(n_rows, d, len(self.classes_))
        return rows, codes

    def _draw(self, prepared: tuple[NDArray[np.float64], NDArray[np.intp]]) -> None:
        self._train(*self._release(*prepared))

    def _fit_published(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        self._train(rows, codes, self._print(rows))

    def _train(
        self, training: NDArray[np.float64], codes: NDArray[np.intp], guarantee: Guarantee
    ) -> None:
        # The right singular vectors of D + N, and its singular values: equation (2).
        parts = decompose(self.noised_rows_.T @ self.noised_rows_)
        singular = np.sqrt(np.maximum(parts.eigenvalues, 0.0))
        self.components_ = select_components(
            replace(parts, eigenvalues=singular),
            contribution_rate=self.contribution_rate,
            n_components=self.n_components,
            signed=False,
        )
        # Noised labels may all be equal, and they are paid for: that label is then the prediction.
        self.only_ = int(codes[0]) if (codes == codes[0]).all() else None
        self.machine_: Any = None
        if self.only_ is None:
            machine = make_svm(
                self.kernel, C=self.C, gamma=self.gamma, n_features=training.shape[1]
            )
            self.machine_ = machine.fit(project(training, self.components_), codes)
        self.guarantee_ = guarantee

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        n_classes = len(self.classes_)
        if self.only_ is not None:
            if n_classes == 2:
                return np.full(len(rows), 1.0 if self.only_ else -1.0)
            return np.tile(np.arange(n_classes) == self.only_, (len(rows), 1)).astype(np.float64)
        return svm_scores(self.machine_, project(rows, self.components_), n_classes=n_classes)

    def _release(
        self, rows: NDArray[np.float64], codes: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.intp], Guarantee]:
        entropy = make_entropy(self.entropy)
        released = release_rows(
            rows,
            row_norm=check_row_norm(self.row_norm, Variant.SOUND),
            epsilon=parse_epsilon(self.epsilon),
            delta=parse_delta(self.delta),
            max_rows_per_person=check_rows_per_person(self.max_rows_per_person),
            entropy=entropy,
        )
        self.noised_rows_ = released
        if self.label_epsilon is not None:
            codes = randomised_response(
                codes,
                n_labels=len(self.classes_),
                epsilon=_each(
                    self._label_epsilon(), check_rows_per_person(self.max_rows_per_person)
                ),
                entropy=entropy,
            )
            self.noised_labels_ = self.classes_[codes]
        n_rows, d = rows.shape
        return released, codes, self._promise(n_rows, d, len(self.classes_))

    def _print(self, rows: NDArray[np.float64]) -> Guarantee:
        epsilon, delta = parse_epsilon(self.epsilon), parse_delta(self.delta)
        has_row_norm = self.row_norm is not None
        bound = check_row_norm(self.row_norm, Variant.PUBLISHED)
        beta = math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)
        rng = check_random_state(self.random_state)
        self.noised_rows_ = rows + rng.normal(scale=beta * bound, size=rows.shape)
        return promise_as_printed(
            method="DPSVD",
            source=self.source,
            private="noised_rows_, components_" if has_row_norm else "",
            not_private="machine_, scores and predictions: the classifier is trained on raw rows "
            "in the private basis, and on raw labels"
            + ("" if has_row_norm else "; rows were not held to the norm that the noise is for"),
            epsilon=epsilon_from_rho(round_up(2 / beta**2), delta) if has_row_norm else None,
            delta=delta if has_row_norm else None,
            claimed_epsilon=epsilon,
            claimed_delta=delta,
            sensitivity=bound,
            sensitivity_of="L2 as printed, for deleting a row; 2 for replacing one",
        )


def _each(total: Decimal, max_rows_per_person: int) -> Decimal:
    """Return epsilon of one of a person's labels, rounded down."""
    return (total / max_rows_per_person).quantize(Decimal("1e-12"), rounding=ROUND_FLOOR)
