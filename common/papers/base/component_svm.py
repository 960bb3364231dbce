"""Support vector machines on private principal components: the base of three methods.

The three methods differ only in the noise::

    A' = X^T X / n + noise,   V_k = first k eigenvectors of A',   classifier = SVM(X V_k)       (1)

k is the smallest whose eigenvalues reach the contribution rate of their sum: of the signed
eigenvalues as printed, of the positive ones in the sound forms
(`dppca.common.analysis.spectrum.pca`). By ``rate_of`` it is of their magnitudes, which some
printed figures need.

**A' is private**, and so are the components and eigenvalues, which are computed from it alone. The
classifier is *not*, in either form: it is trained on ``X V_k``, raw rows in a private basis, and an
attacker who knows all rows but one and sees V_k and the classifier can identify the last row. So it
is `site-only`; the classifiers of `PCADPSVM` and `DPSVM` may leave.

Limits: n is public. Rows are not centred.

Source: Huang et al. (2021), "Differential Privacy Principal Component Analysis for Support Vector
Machines", algorithm 1 and section 3.4.
"""

from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dppca.common.analysis.estimators.base.cautions import warn_of_drowned_components
from dppca.common.analysis.estimators.base.classifier import (
    Classifier,
    Gamma,
    ProjectionMixin,
    make_svm,
    svm_scores,
)
from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant, promise_as_printed
from dppca.common.analysis.estimators.base.projection import (
    MAGNITUDE,
    SIGNED,
    by_magnitude,
    check_rate_of,
    check_rule,
    project,
    select_components,
)
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_positive,
    check_positive_int,
    check_row_norm,
    check_rows_per_person,
    check_variant,
    describe_repeatability,
    make_entropy,
    parse_delta,
    parse_epsilon,
)
from dppca.common.analysis.spectrum.pca import decompose
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.kernel.schema import Layout
from dppca.common.papers.base.second_moment import NoisedMoment, release_second_moment

_PRIVATE = "second_moment_, eigenvalues_, components_"
_NOT_PRIVATE = (
    "machine_, scores and predictions: the classifier is trained on raw rows in the private basis"
)


@dataclass(frozen=True, slots=True)
class PublishedNoise:
    """Noise on one triangle of A for rows in the unit ball, as a paper prints it.

    ``sensitivity`` is the paper's calibration. ``epsilon`` and ``delta`` are the true cost of A'
    with this noise for replacing one row.
    """

    law: type[IndependentLaw]
    scale: float
    sensitivity: float
    sensitivity_of: str
    epsilon: Decimal
    delta: Decimal


@dataclass(kw_only=True, eq=False, repr=False)
class ComponentSVM(ProjectionMixin, Classifier):
    """Base of the three methods, equation (1).

    Parameters
    ----------
    epsilon
        Above 0; there is no default.
    delta
        For Gaussian noise; refused for Laplace noise.
    max_rows_per_person
        The most rows that one person may have; there is no default. The sound form's noise grows
        with it; the figures of the published form are for one row.
    variant
        ``sound`` or ``published``.
    contribution_rate, n_components
        Number of components: by a share of the eigenvalues' sum, or directly.
    rate_of
        In the published form, what the contribution rate counts, and in which order components are
        kept: ``signed`` eigenvalues, or their ``magnitude``.
    kernel, C, gamma
        Settings of the classifier: ``linear`` or ``rbf``; ``gamma="auto"`` is one over the number
        of columns of X.
    standardise
        Scale scores by the rows to mean 0 and deviation 1 before the classifier.
    row_norm
        Public bound on the norm of a row. Only ``published`` takes None: the noise is then that for
        norm 1 for any rows, as in some of the papers' experiments.
    resolution_bits
        g of the sound form's grid, ``row_norm 2^-g``.
    allow_constant
        Accept constant columns.
    entropy
        Maker of the sound form's entropy; None for the operating system's.
    random_state
        Seeds the published form's noise; without effect on the sound form.

    Attributes
    ----------
    second_moment_
        A', shape (d, d).
    eigenvalues_, components_
        Its eigenvalues, or their magnitudes, descending, (d,), and the kept eigenvectors as rows,
        (k, d).
    machine_
        The classifier, scikit-learn's.
    """

    method: ClassVar[str]
    source: ClassVar[str]

    epsilon: object = None
    delta: object = None
    max_rows_per_person: object = None
    variant: str = "sound"
    contribution_rate: float = 0.85
    n_components: int | None = None
    rate_of: str = SIGNED
    kernel: str = "linear"
    C: float = 1.0
    gamma: Gamma = "auto"
    standardise: bool = False
    row_norm: float | None = 1.0
    resolution_bits: int = 10
    allow_constant: bool = False
    entropy: EntropyMaker | None = None
    random_state: Any = None

    def _check_delta(self) -> None:
        """Raise `SettingError` for a delta that is missing, or given where none is meant."""
        parse_delta(self.delta)

    @abstractmethod
    def _calibrate(self, sens: Sensitivity, n_rows: int, d: int) -> Calibration:
        """Return the noise of the sound form, for the integer sums."""

    @abstractmethod
    def _published_noise(self, n_rows: int, d: int) -> PublishedNoise:
        """Return the noise of the published form."""

    def _check_settings(self) -> None:
        variant = check_variant(self.variant)
        parse_epsilon(self.epsilon)
        self._check_delta()
        check_rule(self.contribution_rate, self.n_components)
        check_rate_of(self.rate_of, variant)
        check_rows_per_person(self.max_rows_per_person)
        check_row_norm(self.row_norm, variant)

    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        n_rows, d = rows.shape
        svm = make_svm(
            self.kernel,
            C=self.C,
            gamma=self.gamma,
            n_features=d,
            standardise=bool(self.standardise),
        )
        sound = check_variant(self.variant) is Variant.SOUND
        if sound:
            released = self._release(rows)
            second, guarantee = (
                released.matrix,
                self._corrected_guarantee(released.calibration, n_rows),
            )
        else:
            noise = self._published_noise(n_rows, d)
            second, guarantee = self._noised(rows, noise), self._published_guarantee(noise)
        parts, by_size = decompose(second), self.rate_of == MAGNITUDE
        if by_size:
            parts = by_magnitude(parts)
        self.components_ = select_components(
            parts,
            contribution_rate=self.contribution_rate,
            n_components=self.n_components,
            signed=not sound and not by_size,
        )
        self.second_moment_ = second
        self.eigenvalues_ = parts.eigenvalues
        self.machine_ = svm.fit(project(rows, self.components_), codes)
        self.guarantee_ = guarantee

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return svm_scores(
            self.machine_, project(rows, self.components_), n_classes=len(self.classes_)
        )

    def _release(self, rows: NDArray[np.float64]) -> NoisedMoment:
        n_rows, d = rows.shape

        def caution(noise: Calibration, layout: Layout) -> None:
            warn_of_drowned_components(self, noise, layout, owner_rows=[n_rows], most=1.0)

        return release_second_moment(
            rows,
            row_norm=check_positive("row_norm", self.row_norm),
            resolution_bits=check_positive_int("resolution_bits", self.resolution_bits),
            calibrate=lambda sens: self._calibrate(sens, n_rows, d),
            entropy=make_entropy(self.entropy),
            caution=caution,
        )

    def _noised(self, rows: NDArray[np.float64], noise: PublishedNoise) -> NDArray[np.float64]:
        n_rows, d = rows.shape
        scale = noise.scale * check_row_norm(self.row_norm, Variant.PUBLISHED) ** 2
        i, j = np.triu_indices(d)
        rng = check_random_state(self.random_state)
        second: NDArray[np.float64] = rows.T @ rows / n_rows
        second[i, j] += scale * noise.law.standard(len(i), rng)
        second[j, i] = second[i, j]
        return second

    def _corrected_guarantee(self, noise: Calibration, n_rows: int) -> Guarantee:
        sens, unit = noise.sensitivity, 4**noise.sensitivity.resolution_bits
        scale = check_positive("row_norm", self.row_norm) ** 2 / (unit * n_rows)
        return Guarantee(
            method=self.method,
            source=self.source,
            variant=Variant.SOUND,
            label=Label.SITE_ONLY,
            private=_PRIVATE,
            not_private=_NOT_PRIVATE + describe_repeatability(self.entropy),
            epsilon=noise.epsilon,
            delta=noise.delta,
            relation=sens.relation,
            max_rows_per_person=noise.factor,
            sensitivity=noise.law.of_entries.change(sens) * scale,
            sensitivity_of=f"{noise.law.norm}, one triangle of X^T X / n",
            charge=noise.charge,
            noise=(noise,),
        )

    def _published_guarantee(self, noise: PublishedNoise) -> Guarantee:
        has_row_norm = self.row_norm is not None
        longer = "" if has_row_norm else "; rows were not held to the norm that the noise is for"
        return promise_as_printed(
            method=self.method,
            source=self.source,
            private=_PRIVATE if has_row_norm else "",
            not_private=_NOT_PRIVATE + longer,
            epsilon=noise.epsilon if has_row_norm else None,
            delta=noise.delta if has_row_norm else None,
            claimed_epsilon=parse_epsilon(self.epsilon),
            claimed_delta=None if self.delta is None else Decimal(str(self.delta)),
            sensitivity=noise.sensitivity * check_row_norm(self.row_norm, Variant.PUBLISHED) ** 2,
            sensitivity_of=noise.sensitivity_of,
        )
