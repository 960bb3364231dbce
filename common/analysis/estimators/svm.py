"""The support vector machine without any privacy: the ceiling in every table.

It is libsvm's machine with an RBF kernel, or liblinear's linear one, on the rows themselves.

Limits: nothing about it is private. An RBF machine even contains rows: its support vectors.

Source: Cortes and Vapnik (1995), "Support-vector networks"; Chang and Lin (2011), "LIBSVM".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.classifier import Classifier, Gamma, make_svm, svm_scores
from dppca.common.analysis.estimators.base.guarantee import Guarantee
from dppca.common.kernel.privacy.labels import Label


@dataclass(kw_only=True, eq=False, repr=False)
class SVM(Classifier):
    """Support vector machine.

    Parameters
    ----------
    kernel, C, gamma
        ``rbf`` or ``linear``; penalty; width of the kernel, a number or ``auto`` for one over d:
        libsvm's defaults.
    standardise
        Scale columns by the rows to mean 0 and deviation 1 first.
    allow_constant
        Accept constant columns.

    Attributes
    ----------
    machine_
        scikit-learn's.
    """

    kernel: str = "rbf"
    C: float = 1.0
    gamma: Gamma = "auto"
    standardise: bool = False
    allow_constant: bool = False

    def _fit(self, rows: NDArray[np.float64], codes: NDArray[np.intp]) -> None:
        d = rows.shape[1]
        svm: Any = make_svm(
            self.kernel,
            C=self.C,
            gamma=self.gamma,
            n_features=d,
            standardise=bool(self.standardise),
        )
        self.machine_ = svm.fit(rows, codes)
        self.guarantee_ = Guarantee(
            method="SVM",
            source="Cortes and Vapnik 1995",
            variant=None,
            label=Label.SITE_ONLY,
            private="",
            not_private="everything: the machine is trained on raw rows without noise",
            max_rows_per_person=1,
        )

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return svm_scores(self.machine_, rows, n_classes=len(self.classes_))
