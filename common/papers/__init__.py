"""The papers' methods as scikit-learn estimators, as printed and in forms whose privacy holds.

======================  ==========================================================================
estimator               may leave its site
======================  ==========================================================================
`PPCADPMH`              sound: components, model and synthetic rows
`DPSUBN3`, `PrivBayes`  network, tables and synthetic rows
`DPPCASVM`, `AGSVM`,    components only; the classifier is `site-only`
`MODSuLQSVM`
`PCADPSVM`              sound: components and classifier
`DPSVM`                 the classifier
`PrivateSVM`            sound: the classifier
`DPSVD`                 sound: noised rows; with noised labels, the classifier too
`DPSVMDVP`              nothing: published form only
`SVM`                   nothing: no privacy
======================  ==========================================================================

Each estimator's ``guarantee_`` states the private attributes, epsilon and delta, and the rest.
``variant="published"`` runs an algorithm exactly as its paper prints it, for benchmarks on public
data.
"""

from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant
from dppca.common.analysis.estimators.dpsvm import DPSVM
from dppca.common.analysis.estimators.svm import SVM
from dppca.common.papers.ag_svm import AGSVM
from dppca.common.papers.dppca_svm import DPPCASVM
from dppca.common.papers.dpsvd import DPSVD
from dppca.common.papers.dpsvmdvp import DPSVMDVP
from dppca.common.papers.mod_sulq_svm import MODSuLQSVM
from dppca.common.papers.networks.dp_subn3 import DPSUBN3
from dppca.common.papers.networks.privbayes import PrivBayes
from dppca.common.papers.pcadp_svm import PCADPSVM
from dppca.common.papers.ppca.ppca_dp_mh import PPCADPMH
from dppca.common.papers.private_svm import PrivateSVM
from dppca.common.papers.unit_ball import UnitBall

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
    "Guarantee",
    "MODSuLQSVM",
    "PrivBayes",
    "PrivateSVM",
    "UnitBall",
    "Variant",
]
