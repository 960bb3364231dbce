"""C of a machine whose weights get noise, from public numbers alone.

C = 1, libsvm's default, is far too large once noise is added: the noise grows with C without limit,
the weights only until the machine fits. Choosing C by trying several values on the rows costs
privacy; computing it from public numbers costs none. Let the noise on each weight have the
deviation ``v s`` with ``s = 2 C r`` (`dppca.common.analysis.estimators.base.weight_noise`, equation
1), where v depends only on epsilon, delta, and the numbers of weights and of machines. Against any
w0 of norm B/r, whose scores are at most B, the mean hinge loss of the released weights exceeds the
loss of w0 in expectation by at most

    B^2 / (2 n C r^2)  +  2 C r^2 v                                                             (1)

The first part is the cost of regularisation, since w has the smallest ``|w|^2/2 + C sum hinge`` of
all. The second is the noise's: it moves the score of a row of norm r by at most ``v s r``, and the
hinge loss by no more. The right size of the scores is unknown without the rows. Assume that
machines with scores up to B lose a/B, like one that must separate neighbouring classes; then the
smallest of ``a/B`` plus (1), over B and C, is at

    C = sqrt(a) n^(-1/4) (4v)^(-3/4) / r^2                                                      (2)

The value of a is a choice and no theorem: with a = 4, a machine that can give no score above 4 has
lost everything. Of 1/4, 1, 4, 16 and 64 it did best, or nearly, on public tables that no experiment
with such machines reports: ``docs/explanation/models.md``, 61. C is at most 1, the
limit for little noise.

Limits: (1) bounds a mean hinge loss, loosely; another C can be better for a table. A C that was
chosen *because of* the rows is a release without a charge.

Source: derived for this project; the trade of regularisation against noise is in the bounds on
excess risk of Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private Empirical Risk
Minimization", and of Rubinstein et al. (2012).
"""

import math

from dppca.common.analysis.estimators.base.settings import check_positive
from dppca.common.kernel.errors import SettingError

Penalty = float | str
AUTO = "auto"
LARGEST = 1.0
"""Value without noise: libsvm's default."""
_LOSS = 4.0
"""a of (2)."""


def check_penalty(C: object) -> None:
    """Raise `SettingError` unless C is a number above 0 or `AUTO`."""
    if not isinstance(C, str):
        check_positive("C", C)
    elif C != AUTO:
        raise SettingError(f"C is {C!r}; it must be a number above 0, or 'auto'")


def published_penalty(C: Penalty) -> float:
    """C of a published form: the given number or libsvm's default, as no paper names another."""
    return LARGEST if isinstance(C, str) else float(C)


def balanced_penalty(noise: float, *, n_rows: int, radius: float) -> float:
    """C by equation (2).

    ``noise`` is v, the deviation of the noise on one weight as a share of s, above 0; ``n_rows >=
    1`` are the training rows; ``radius`` is r, the bound on the norm of a row, constant column
    included.
    """
    balanced = math.sqrt(_LOSS) / (n_rows * (4.0 * noise) ** 3) ** 0.25 / radius**2
    return float(min(balanced, LARGEST))
