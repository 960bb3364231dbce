"""The public face of DPPCA: what users import. No logic lives here.

Names are imported when they are first used: estimators need scikit-learn, and neither a program
that only reads a schema nor a page of help should wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from dppca.common.analysis.estimates.face import estimates
    from dppca.common.analysis.estimators.base.cautions import (
        NoiseWarning,
        PrivacyWarning,
        SpendingWarning,
    )
    from dppca.common.analysis.rows.replicates import combine, replicates
    from dppca.common.analysis.study_file import study_from_yaml
    from dppca.common.kernel.privacy.release import calibrate
    from dppca.common.kernel.schema import Binary, Categorical, Date, Numeric, Ordinal, Schema
    from dppca.common.kernel.schema.frames import CodingWarning, decode, encode
    from dppca.common.kernel.study import Study
    from dppca.common.papers import (
        AGSVM,
        DPPCASVM,
        DPSUBN3,
        DPSVD,
        DPSVM,
        DPSVMDVP,
        PCADPSVM,
        PPCADPMH,
        SVM,
        Guarantee,
        MODSuLQSVM,
        PrivateSVM,
        PrivBayes,
        UnitBall,
        Variant,
    )
    from dppca.common.verification.components import Components, read_result
    from dppca.common.verification.dossier.writing import write_dossier
    from dppca.common.verification.files import UnvouchedWarning, verify_file
    from dppca.curator.planning.notebook import plan
    from dppca.deploy.simulation.notebook import Simulation, simulate
    from dppca.owner.records.frame_mappings import read_mapping

__all__ = [
    "AGSVM",
    "DPPCASVM",
    "DPSUBN3",
    "DPSVD",
    "DPSVM",
    "DPSVMDVP",
    "PCADPSVM",
    "PPCADPMH",
    "SVM",
    "Binary",
    "Categorical",
    "CodingWarning",
    "Components",
    "Date",
    "Guarantee",
    "MODSuLQSVM",
    "NoiseWarning",
    "Numeric",
    "Ordinal",
    "PrivBayes",
    "PrivacyWarning",
    "PrivateSVM",
    "Schema",
    "Simulation",
    "SpendingWarning",
    "Study",
    "UnitBall",
    "UnvouchedWarning",
    "Variant",
    "calibrate",
    "combine",
    "decode",
    "encode",
    "estimates",
    "plan",
    "read_mapping",
    "read_result",
    "replicates",
    "simulate",
    "study_from_yaml",
    "verify_file",
    "write_dossier",
]
_ELSEWHERE = {
    **dict.fromkeys(
        ("Binary", "Categorical", "Date", "Numeric", "Ordinal", "Schema"),
        "dppca.common.kernel.schema",
    ),
    "CodingWarning": "dppca.common.kernel.schema.frames",
    "Components": "dppca.common.verification.components",
    "NoiseWarning": "dppca.common.analysis.estimators.base.cautions",
    "PrivacyWarning": "dppca.common.analysis.estimators.base.cautions",
    "Result": "dppca.common.kernel.attestation.results",  # as in 0.1.0; nothing here returns one
    "Simulation": "dppca.deploy.simulation.notebook",
    "SpendingWarning": "dppca.common.analysis.estimators.base.cautions",
    "Study": "dppca.common.kernel.study",
    "UnvouchedWarning": "dppca.common.verification.files",
    "calibrate": "dppca.common.kernel.privacy.release",
    "combine": "dppca.common.analysis.rows.replicates",
    "decode": "dppca.common.kernel.schema.frames",
    "encode": "dppca.common.kernel.schema.frames",
    "estimates": "dppca.common.analysis.estimates.face",
    "plan": "dppca.curator.planning.notebook",
    "read_mapping": "dppca.owner.records.frame_mappings",
    "read_result": "dppca.common.verification.components",
    "replicates": "dppca.common.analysis.rows.replicates",
    "simulate": "dppca.deploy.simulation.notebook",
    "study_from_yaml": "dppca.common.analysis.study_file",
    "verify_file": "dppca.common.verification.files",
    "write_dossier": "dppca.common.verification.dossier.writing",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("dppca-verify")
    if name not in __all__ and name not in _ELSEWHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(_ELSEWHERE.get(name, "dppca.common.papers"))
    except ModuleNotFoundError as error:
        from dppca.common.shell.packages import WHEELS, name_wheel

        missing = error.name or ""
        if missing not in WHEELS:
            raise
        raise ImportError(name_wheel(missing, f"dppca.{name}"), name=missing) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
