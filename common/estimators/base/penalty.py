"""C of a machine whose weights get noise, from public numbers alone.

C = 1, libsvm's default, is far too large once noise is added: the noise grows with C for ever, the
weights only until the machine fits. To choose C by trying several on the rows costs privacy; to
compute it from what is public costs none. Let the noise on each weight have the deviation ``v s``
with ``s = 2 C r`` (`dppca.common.estimators.base.weight_noise`, equation 1), where v depends on
epsilon, delta, the numbers of weights and of machines, and nothing else. Against any w0 of norm
B/r, whose scores are at most B, the mean hinge loss of what is released exceeds that of w0 by

    B^2 / (2 n C r^2)  +  2 C r^2 v                                                             (1)

at most, in expectation. The first part is what regularisation costs, as w has the smallest
``|w|^2/2 + C sum hinge`` of all. The second is the noise's: it moves the score of a row of norm r
by ``v s r`` at most, and the hinge loss by no more than that. How large the scores should be is not
known without the rows. Take machines of scores up to B to lose a/B, as one that must separate
classes near each other does; then the smallest of ``a/B`` plus (1), over B and C, is at

    C = sqrt(a) n^(-1/4) (4v)^(-3/4) / r^2                                                      (2)

The value of a is a choice and no theorem: with a = 4, a machine that can give no score above 4 has
lost everything. Of 1/4, 1, 4, 16 and 64 it did best, or nearly, on public tables that no experiment
with such machines reports: ``docs/decisions/0061-a-public-rule-for-c.md``. C is 1 at most, which is
where little noise leads.

Limits: (1) bounds a mean hinge loss, loosely; another C can be better for a table. A C that was
chosen *because of* the rows is a release that nobody paid for.

Source: derived for this project; the trade of regularisation against noise is in the bounds on
excess risk of Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private Empirical Risk
Minimization", and of Rubinstein et al. (2012).
"""

from __future__ import annotations

import math

from dppca.common.errors import SettingError
from dppca.common.estimators.base.settings import check_positive

Penalty = float | str
AUTO = "auto"
LARGEST = 1.0
"""As without noise: libsvm's default."""
_LOSS = 4.0
"""a of (2)."""


def check_penalty(C: object) -> None:
    """Refuse what is neither a number above 0 nor `AUTO`."""
    if not isinstance(C, str):
        check_positive("C", C)
    elif C != AUTO:
        raise SettingError(f"C is {C!r}; it must be a number above 0, or 'auto'")


def published_penalty(C: Penalty) -> float:
    """C of a published form: the number given, or libsvm's default, for no paper names another."""
    return LARGEST if isinstance(C, str) else float(C)


def balanced_penalty(noise: float, *, n_rows: int, radius: float) -> float:
    """Equation (2).

    Parameters
    ----------
    noise
        v, the deviation of the noise on one weight as a share of s, above 0.
    n_rows
        Rows the machine is trained on, at least 1.
    radius
        r, the bound on the norm of a row, constant column included.
    """
    balanced = math.sqrt(_LOSS) / (n_rows * (4.0 * noise) ** 3) ** 0.25 / radius**2
    return float(min(balanced, LARGEST))
