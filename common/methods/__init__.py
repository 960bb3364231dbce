"""The papers' methods as scikit-learn estimators, as printed and in forms whose privacy holds.

======================  ==========================================================================
estimator               what may leave its site
======================  ==========================================================================
`PPCADPMH`              sound: components, model and synthetic rows
`DPPCASVM`, `AGSVM`,    components only; the classifier is `site-only`
`MODSuLQSVM`
`PCADPSVM`              sound: components and classifier
`DPSVM`                 the classifier
`PrivateSVM`            sound: the classifier
`DPSVD`                 sound: noised rows; with noised labels, the classifier too
`DPSVMDVP`              nothing: published form only
`SVM`                   nothing: no privacy
======================  ==========================================================================

Every one says in ``guarantee_`` what is private, at which epsilon and delta, and what is not.
``variant="published"`` runs an algorithm as its paper prints it, for benchmarks on public data.
"""

from common.methods.ag_svm import AGSVM
from common.methods.dppca_svm import DPPCASVM
from common.methods.dpsvd import DPSVD
from common.methods.dpsvm import DPSVM
from common.methods.dpsvmdvp import DPSVMDVP
from common.methods.guarantee import Guarantee, Variant
from common.methods.mod_sulq_svm import MODSuLQSVM
from common.methods.pcadp_svm import PCADPSVM
from common.methods.ppca_dp_mh import PPCADPMH
from common.methods.private_svm import PrivateSVM
from common.methods.svm import SVM
from common.methods.unit_ball import UnitBall

__all__ = [
    "AGSVM",
    "DPPCASVM",
    "DPSVD",
    "DPSVM",
    "DPSVMDVP",
    "PCADPSVM",
    "PPCADPMH",
    "SVM",
    "Guarantee",
    "MODSuLQSVM",
    "PrivateSVM",
    "UnitBall",
    "Variant",
]
