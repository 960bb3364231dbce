"""Privacy of a masked contribution if more owners collude than the study assumes.

The noise of a sum comes from ``honest`` owners, h = quorum - colluders; each of them adds a share.
If more owners collude, so that only h' < h shares are left, Gaussian noise has h'/h of its variance
(a little more: shares are rounded up), so rho becomes rho h/h'. This site's own share, h' = 1, is
left even if all others collude. Shares of Laplace noise are brittle: a single share is often 0 and
protects nothing, so no figure is given for h' < h.

Source: `dppca.common.privacy.laws`; Canonne, Kamath and Steinke (2020), proposition 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Annotated

from dppca.common.documents.amounts import decimal_text
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.study import Study

_SHOWN = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Collusion:
    """Epsilon, at the same delta, if more owners collude; null if no promise is left."""

    one_more: Annotated[Decimal | None, "if one more owner colludes"]
    all_others: Annotated[Decimal | None, "if all other owners collude"]
    words: Annotated[str, "the same in words"]


def foresee_collusion(study: Study, calibration: Calibration) -> Collusion | None:
    """Return a study's figures, rounded up; None if each owner adds all of the noise."""
    honest = calibration.n_honest_owners
    if honest is None:
        return None
    one_more = _left(calibration, honest, honest - 1)
    all_others = _left(calibration, honest, 1)
    words = f"with any {study.required_contributions - honest + 1}: "
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


def _left(calibration: Calibration, honest: int, left: int) -> Decimal | None:
    cost = calibration.law.cost_of_fewer(calibration.charge, honest, left)
    if cost is None:
        return None
    return cost.epsilon_at(calibration.delta).quantize(_SHOWN, ROUND_CEILING)
