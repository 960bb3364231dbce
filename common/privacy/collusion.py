"""What is left of a masked contribution's privacy if more owners collude than the study assumes.

The noise of a sum comes from ``honest`` owners, h = quorum - colluders, of whom each adds a share.
If so many more collude that h' < h shares are left, Gaussian noise has h'/h of its variance (a
little more: shares are rounded up), so rho becomes rho h/h'. This site's own share, h' = 1, is left
even if all others collude. Shares of Laplace noise are brittle: one alone is often 0, and protects
nothing; no figure is given for h' < h.

Source: `dppca.common.privacy.laws`; Canonne, Kamath and Steinke (2020), proposition 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from dppca.common.documents.amounts import decimal_text
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.study import Study

_SHOWN = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Collusion:
    """Against whom a masked contribution is protected, and what is left against more.

    Attributes
    ----------
    colluders
        t: owners that may work together with the curator.
    honest
        h: owners, this one among them, that must not.
    one_more, all_others
        Epsilon at the study's delta if t + 1, or all other owners, work together with the curator,
        rounded up; None where nothing is promised.
    """

    colluders: int
    honest: int
    one_more: Decimal | None
    all_others: Decimal | None


def foresee_collusion(study: Study, calibration: Calibration) -> Collusion | None:
    """The figures of a study; None where each owner adds all of the noise."""
    honest = calibration.n_honest_owners
    if honest is None:
        return None
    return Collusion(
        colluders=study.required_contributions - honest,
        honest=honest,
        one_more=_left(calibration, honest, honest - 1),
        all_others=_left(calibration, honest, 1),
    )


def describe_collusion(found: Collusion) -> str:
    """What is left, in words."""
    more = f"with any {found.colluders + 1}:"
    if found.one_more is None or found.all_others is None:
        return (
            f"{more} less than promised; if all other owners collude: none (a share of "
            "this noise alone protects nothing)"
        )
    return (
        f"{more} epsilon {decimal_text(found.one_more)}; with all other owners: epsilon "
        f"{decimal_text(found.all_others)}"
    )


def _left(calibration: Calibration, honest: int, left: int) -> Decimal | None:
    cost = calibration.law.cost_of_fewer(calibration.charge, honest, left)
    if cost is None:
        return None
    return cost.epsilon_at(calibration.delta).quantize(_SHOWN, ROUND_CEILING)
