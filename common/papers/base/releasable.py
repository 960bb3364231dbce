"""Classifiers that may leave, fitted in two steps; the ledger is charged in between.

::

    planned_guarantee(n_rows, n_features)   from public numbers alone: the promise of a fit
    prepare(X, y)                           rows are read; every refusal happens here
        … the charge is written down …
    release(prepared)                       noise is drawn; the estimator is fitted

``fit`` is ``prepare`` and ``release`` in one call. The result of `prepare` is *not* private: it
holds rows, or values computed from them without noise, and is meant for `release` only.

Limits: a method that trains on its own noised components (`PCADPSVM`) can train only after they are
drawn. It uses public numbers to refuse beforehand a fit that its solver might be unable to certify.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dppca.common.analysis.estimators.base.classifier import Classifier
from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant
from dppca.common.analysis.estimators.base.inputs import few_rows_message
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_rows_per_person,
    check_variant,
    parse_delta,
    parse_epsilon,
    refuse_delta,
)
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost


@dataclass(kw_only=True, eq=False, repr=False)
class ReleasableClassifier(Classifier):
    """A classifier whose sound form may leave.

    Parameters
    ----------
    epsilon
        Above 0; there is no default.
    delta
        For Gaussian noise; None for Laplace noise and pure epsilon, if the method has it.
    max_rows_per_person
        The most rows that one person may have; there is no default. The noise of the sound form
        grows with it; the figures of the published form are for one row.
    variant
        ``sound`` or ``published``.
    classes
        Public list of all classes; None treats those in the data as public.
    allow_constant
        Accept constant columns.
    entropy
        Maker of the sound form's entropy; None for the operating system's.
    random_state
        Seeds the published form's noise.
    """

    epsilon: object = None
    delta: object = None
    max_rows_per_person: object = None
    variant: str = "sound"
    classes: Sequence[Any] | None = None
    allow_constant: bool = False
    entropy: EntropyMaker | None = None
    random_state: Any = None

    def check_settings(self) -> None:
        """Raise `SettingError` for settings that no fit of the sound form accepts."""
        self._check_settings()
        check_variant(self.variant, allowed=(Variant.SOUND,))

    def planned_guarantee(
        self, *, n_rows: int, n_features: int, n_components: int | None = None
    ) -> Guarantee:
        """Guarantee of a fit of the sound form, from its settings and public numbers.

        ``n_components`` is the number that the fit kept; None before a fit, which costs the same.
        Raise `SettingError` or `RangeError` if a fit would be refused for any rows or ``classes``
        are not declared, and `DataError` if there are fewer rows than features.
        """
        self.check_settings()
        if self.classes is None or len(set(self.classes)) < 2:
            raise SettingError(
                "classes is not given: name two public classes or more, to plan a release"
            )
        if n_rows < n_features:
            raise DataError(few_rows_message(n_rows, n_features))
        return self._promise(n_rows, n_features, len(set(self.classes)), n_components)

    def planned_charge(self, *, n_rows: int, n_features: int) -> PrivacyCost:
        """Cost of a fit of the sound form; raises as `planned_guarantee`."""
        charge = self.planned_guarantee(n_rows=n_rows, n_features=n_features).charge
        assert charge is not None  # noqa: S101 - a sound form has one
        return charge

    def prepare(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Do everything up to the noise; raise as ``fit``. The result is for `release` alone."""
        check_variant(self.variant, allowed=(Variant.SOUND,))
        return self._prepare(*self._checked(X, y))

    def release(self, prepared: Any) -> Self:
        """Draw the noise and fit; ``guarantee_`` is set last."""
        self._draw(prepared)
        return self

    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        if check_variant(self.variant) is Variant.SOUND:
            prepared = self._prepare(rows, codes)
            self._caution(*rows.shape)
            self._draw(prepared)
        else:
            self._fit_published(rows, codes)

    def _check_settings(self) -> None:
        variant = check_variant(self.variant)
        parse_epsilon(self.epsilon)
        if variant is Variant.PUBLISHED:
            refuse_delta(self.delta, instead="the sound form")
        elif self.delta is not None:
            parse_delta(self.delta)
        check_rows_per_person(self.max_rows_per_person)

    def _caution(self, n_rows: int, d: int) -> None:
        """Warn, from public numbers, if the noise will drown the release."""

    @abstractmethod
    def _promise(
        self, n_rows: int, d: int, n_classes: int, n_components: int | None = None
    ) -> Guarantee:
        """Return the guarantee of a fit of the sound form, from public numbers."""

    @abstractmethod
    def _prepare(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> Any:
        """Return the input of `_draw`."""

    @abstractmethod
    def _draw(self, prepared: Any) -> None:
        """Set the fitted attributes and ``guarantee_``."""

    @abstractmethod
    def _fit_published(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        """Fit the published form."""
