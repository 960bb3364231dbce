"""The public face of DPPCA: what users import. No logic lives here.

The estimators are imported when they are first asked for: they need scikit-learn, and a program
that only reads a schema should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from common.schema import Binary, Categorical, Numeric, Schema
from common.study import Study, study_from_yaml

if TYPE_CHECKING:
    from common.methods import (
        AGSVM,
        DPPCASVM,
        DPSVD,
        DPSVM,
        DPSVMDVP,
        PCADPSVM,
        PPCADPMH,
        SVM,
        Guarantee,
        MODSuLQSVM,
        PrivateSVM,
        UnitBall,
        Variant,
    )

__all__ = [
    "AGSVM",
    "DPPCASVM",
    "DPSVD",
    "DPSVM",
    "DPSVMDVP",
    "PCADPSVM",
    "PPCADPMH",
    "SVM",
    "Binary",
    "Categorical",
    "Guarantee",
    "MODSuLQSVM",
    "Numeric",
    "PrivateSVM",
    "Schema",
    "Study",
    "UnitBall",
    "Variant",
    "study_from_yaml",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module("common.methods"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
