"""Privacy of a masked contribution if more owners collude than the study assumes.

The noise of a sum comes from ``honest`` owners, h = quorum - colluders; each of them adds a share.
If more owners collude, so that only h' < h shares are left, Gaussian noise has h'/h of its variance
(a little more: shares are rounded up), so rho becomes rho h/h'. This site's own share, h' = 1, is
left even if all others collude. Shares of Laplace noise are brittle: a single share is often 0 and
protects nothing, so no figure is given for h' < h.

Source: `dppca.common.kernel.privacy.gaussian_law`; Canonne, Kamath and Steinke (2020),
proposition 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Annotated

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.study import Study

_SHOWN = Decimal("0.01")  # step to which an epsilon is rounded up


@dataclass(frozen=True, slots=True)
class Collusion:
    """Epsilon, at the same delta, if more owners collude; null if no promise is left."""

    one_more: Annotated[Decimal | None, "if one more owner colludes"]
    all_others: Annotated[Decimal | None, "if all other owners collude"]
    words: Annotated[str, "the same in words"]


def foresee_collusion(
    study: Study, calibration: Calibration, first: Round | None = None
) -> Collusion | None:
    """Return a study's figures, rounded up; None if each owner adds all of the noise.

    ``first`` is the study that it continues: the figures are then of both.
    """
    rounds = [Round(study, calibration), *([] if first is None else [first])]
    accepted = [each.study.privacy.colluders for each in rounds]
    expected = min((number for number in accepted if number is not None), default=None)
    if expected is None:
        return None
    one_more = _left(rounds, expected + 1)
    all_others = _left(rounds, None)
    words = f"with any {expected + 1}: "
    if one_more is None or all_others is None:
        words += (
            "less than promised; if all other owners collude: none (a share of this noise alone "
            "protects nothing)"
        )
    else:
        words += (
            f"epsilon {decimal_text(one_more)}; with all other owners: epsilon "
            f"{decimal_text(all_others)}"
        )
    return Collusion(one_more, all_others, words)


def _left(rounds: Sequence[Round], colluders: int | None) -> Decimal | None:
    """Return epsilon if ``colluders`` owners collude in each study, or, for None, all others."""
    total, delta = PrivacyCost(Decimal(0), Decimal(0)), Decimal(0)
    for each in rounds:
        cost: PrivacyCost | None = each.calibration.charge
        honest = each.calibration.n_honest_owners
        if honest is not None:
            left = 1 if colluders is None else each.study.required_contributions - colluders
            if left < honest:
                cost = each.calibration.law.cost_of_fewer(each.calibration.charge, honest, left)
        if cost is None:
            return None
        total, delta = total + cost, max(delta, each.calibration.delta)
    return total.epsilon_at(delta).quantize(_SHOWN, ROUND_CEILING)
