"""Classifiers that may leave, fitted in two steps with room for a ledger in between.

::

    planned_charge(n_rows, n_features)      from public numbers alone: what a fit will cost
    prepare(X, y)                           rows are read; whatever can refuse does so here
        … the charge is written down …
    release(prepared)                       noise is drawn; the estimator is fitted

``fit`` is ``prepare`` and ``release`` at once. What `prepare` returns is *not* private: it holds
rows, or what was computed from them without noise, and goes to `release` and nowhere else.

Limits: a method that trains on its own noised components (`PCADPSVM`) can train only after they
are drawn. It refuses beforehand, by public numbers, what its solver might be unable to certify.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from common.errors import DataError, SettingError
from common.methods.classifier import Classifier
from common.methods.guarantee import Variant
from common.methods.settings import variant_of
from common.methods.table import few_rows_message
from common.privacy.accounting import Charge
from common.privacy.mechanisms import Calibration


class Releasing(Classifier):
    """A classifier whose sound form may leave; it has ``variant`` and ``classes`` as settings."""

    variant: str
    classes: Sequence[Any] | None

    def planned_charge(self, *, n_rows: int, n_features: int) -> Charge:
        """What a fit of the sound form will cost, from its settings and public numbers.

        Raises
        ------
        SettingError, RangeError
            It would be refused whatever the rows; or ``classes`` are not declared.
        DataError
            There are fewer rows than features.
        """
        self._check_settings()
        variant_of(self.variant, allowed=(Variant.SOUND,))
        if self.classes is None or len(set(self.classes)) < 2:
            message = "classes is not given: name two public classes or more, to plan a release"
            raise SettingError(message)
        if n_rows < n_features:
            raise DataError(few_rows_message(n_rows, n_features))
        laws = self._planned(n_rows, n_features, len(set(self.classes)))
        return sum((law.charge for law in laws), start=self._beside())

    def prepare(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Everything up to the noise; raises as ``fit`` does. The answer is for `release` alone."""
        variant_of(self.variant, allowed=(Variant.SOUND,))
        return self._prepare(*self._checked(X, y))

    def release(self, prepared: Any) -> Self:
        """Draw the noise and fit; ``guarantee_`` is set last."""
        self._draw(prepared)
        return self

    def _declared_classes(self) -> Sequence[Any] | None:
        return self.classes

    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        if variant_of(self.variant) is Variant.SOUND:
            self._draw(self._prepare(rows, codes))
        else:
            self._fit_printed(rows, codes)

    def _beside(self) -> Charge:
        """What is charged beside the noise that is added to integers."""
        return Charge(Decimal(0), Decimal(0))

    @abstractmethod
    def _planned(self, n_rows: int, d: int, n_classes: int) -> tuple[Calibration, ...]:
        """The laws that noise is drawn from, as far as their charges go."""

    @abstractmethod
    def _prepare(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> Any:
        """What `_draw` needs."""

    @abstractmethod
    def _draw(self, prepared: Any) -> None:
        """Set the fitted attributes and ``guarantee_``."""

    @abstractmethod
    def _fit_printed(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        """The published form."""
