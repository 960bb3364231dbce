"""Methods that ``dppca-owner train`` offers: two, each within the limits of its label.

The label follows from a method's guarantee; the steward does not choose it:

* `released`: the model is private by a proof that holds. It takes the ledger's path: consent,
  reserve, draw, commit. It is never made without a policy.
* `site-only`: the model is computed from raw rows. It is saved here, never published, and not
  charged, because nothing leaves.

The papers' other methods are estimators of the Python package. The error for such a method names
its class. This module decides on names and options only: it reads nothing, and the methods check
the numbers.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.labels import Label

LINEAR, RBF = "linear", "rbf"
DPPCA_SVM, DP_SVM = "dppca-svm", "dp-svm"


@dataclass(frozen=True, slots=True)
class Method:
    """Method that `train` offers.

    The first of ``kernels`` is the default; ``C`` is the default weight of the hinge loss.
    """

    name: str
    label: Label
    kernels: tuple[str, ...]
    C: float


METHODS = MappingProxyType(
    {
        method.name: method
        for method in (
            Method(DPPCA_SVM, Label.SITE_ONLY, (LINEAR, RBF), C=0.1),
            Method(DP_SVM, Label.RELEASED, (LINEAR,), C=0.01),
        )
    }
)
IN_PYTHON = MappingProxyType(
    {
        "ag-svm": "AGSVM",
        "dp-subn3": "DPSUBN3",
        "dpsvd": "DPSVD",
        "dpsvmdvp": "DPSVMDVP",
        "mod-sulq-svm": "MODSuLQSVM",
        "pca-dpsvm": "PCADPSVM",
        "ppca-dp-mh": "PPCADPMH",
        "privbayes": "PrivBayes",
        "private-svm": "PrivateSVM",
        "svm": "SVM",
    }
)
"""Methods that `train` does not offer, and their classes in the package `dppca`."""


@dataclass(frozen=True, slots=True)
class TrainOptions:
    """Options that the steward typed; None for an option that was not given."""

    study_name: str
    target: str
    method: str
    data_set_name: str | None = None
    output: Path | None = None
    epsilon: str | None = None
    delta: str | None = None
    kernel: str | None = None
    C: float | None = None
    max_rows: int | None = None
    yes: bool = False

    def command(self, data_set: str) -> str:
        """Return the command line, after ``dppca-owner``, that repeats this for a data set."""
        options = {
            "--target": self.target,
            "--method": self.method,
            "--epsilon": self.epsilon,
            "--delta": self.delta,
            "--kernel": self.kernel,
            "--C": self.C,
            "--data-set": data_set,
        }
        arguments = [(name, str(value)) for name, value in options.items() if value is not None]
        return shlex.join(
            ["train", self.study_name, *(word for pair in arguments for word in pair)]
        )


@dataclass(frozen=True, slots=True)
class ResolvedMethod:
    """Method with its settings, ready for training."""

    method: Method
    kernel: str
    C: float

    @property
    def label(self) -> Label:
        """Label of the model."""
        return self.method.label


def resolve(options: TrainOptions) -> ResolvedMethod:
    """Choose method and settings, or refuse, before anything is read, drawn or charged.

    Raise `SettingError` if an option has no effect on the method, or the method is not offered.
    """
    if options.method in IN_PYTHON:
        raise SettingError(_describe_unoffered(options.method))
    method = METHODS[options.method]
    if method.label is not Label.RELEASED:
        _check_site_only(method, options)
    elif options.max_rows is not None:  # the methods themselves check the delta
        raise SettingError(
            f"--max-rows is for models that stay: {method.name} trains on all rows, whose number "
            "is public"
        )
    return ResolvedMethod(
        method=method,
        kernel=_choose_kernel(method, options.kernel),
        C=method.C if options.C is None else options.C,
    )


def _describe_unoffered(name: str) -> str:
    where = (
        f"{name} is not offered here: it is in Python, `from dppca import {IN_PYTHON[name]}` "
        "(docs/how-to/choose-a-method.md)"
    )
    if name == "ppca-dp-mh":
        return (
            f"{where}; with other owners it is the study itself: use `contribute`, `components` "
            "and `synthesize`"
        )
    return f"{where}; train offers {', '.join(METHODS)}"


def _check_site_only(method: Method, options: TrainOptions) -> None:
    """Refuse the options of a model that may leave."""
    if options.epsilon is not None or options.delta is not None:
        raise SettingError(
            "--epsilon and --delta are for a method with noise of its own, and a model made by "
            f"{method.name} has none and may not leave: leave them out, or use --method {DP_SVM}"
        )
    if options.yes:
        raise SettingError(
            f"--yes consents to a charge, and {method.name} makes none: leave it out"
        )


def _choose_kernel(method: Method, kernel: str | None) -> str:
    if kernel is None:
        return method.kernels[0]
    if kernel in method.kernels:
        return kernel
    reason = ": an rbf machine is made of rows and cannot leave" if kernel == RBF else ""
    raise SettingError(
        f"kernel is {kernel}, and {method.name} is {' or '.join(method.kernels)}{reason}; "
        f"use --kernel {method.kernels[0]}"
    )
