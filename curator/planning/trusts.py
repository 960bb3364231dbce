"""Comparison of a study under both kinds of trust: noise of the sum, and forecast.

The noise of the sum has ``sqrt(m)`` times the standard deviation of one mechanism's if each owner
adds all of it, and ``sqrt(m / h)`` times if h owners make it together.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated

from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.privacy.collusion import Collusion, foresee_collusion
from dppca.common.kernel.privacy.laws import every_law
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Covariance, Study, Trust
from dppca.curator.planning.assumptions import Assumption
from dppca.curator.planning.forecaster import Feasibility, Forecaster, PlanForecast


@dataclass(frozen=True, slots=True)
class PlanTrust:
    """The study under one kind of trust; colluders are None if each owner adds all of the noise."""

    trust: Annotated[Trust, "whom owners trust"]
    colluders: Annotated[int | None, "owners that may work with the curator"]
    honest: Annotated[int | None, "owners whose shares of the noise make all of it"]
    factor: Annotated[float, "standard deviation of the sum's noise, over that of one mechanism's"]
    forecast: Annotated[PlanForecast, "what is forecast"]
    if_more_collude: Annotated[
        Collusion | None, "what is left; null where it does not depend on that"
    ]


def compare_trusts(
    study: Study,
    rows: Mapping[str, int],
    assumption: Assumption,
    colluders: int | None,
    own: PlanForecast,
    advance: Callable[[], None],
) -> tuple[PlanTrust, ...]:
    """Compare both kinds of trust, the study's own first; only that one without colluders."""
    study_colluders = study.privacy.colluders
    if colluders is not None:
        _check_colluders(study, colluders)
    kinds: list[tuple[Trust, int | None]] = [(study.trust, study_colluders)]
    if study.trust is Trust.AGGREGATE:
        kinds.append((Trust.OWNER, None))
    elif colluders is not None:
        kinds.append((Trust.AGGREGATE, colluders))
    lines = []
    for trust, others in kinds:
        changed = with_trust(study, trust, others)
        try:
            calibration = calibrate(changed)
        except StudyError:
            line = replace(own, noise=None, forecast=None, verdict=Feasibility.REFUSED)
            collusion = None
        else:
            line = own
            if trust is not study.trust:
                line = _forecast(changed, rows, assumption, calibration, advance)
            collusion = foresee_collusion(changed, calibration)
        law, layout = every_law()[study.privacy.mechanism], study.table.layout
        factor = sqrt(law.pooled(layout, len(rows), changed.n_honest_owners))
        lines.append(PlanTrust(trust, others, changed.n_honest_owners, factor, line, collusion))
    return tuple(lines)


def with_trust(study: Study, trust: Trust, colluders: int | None) -> Study:
    """Return the study under another trust, without keys, for plans only."""
    privacy = study.privacy.model_copy(update={"trust": trust, "colluders": colluders})
    return study.model_copy(update={"privacy": privacy})


def _forecast(
    study: Study,
    rows: Mapping[str, int],
    assumption: Assumption,
    requested: Calibration,
    advance: Callable[[], None],
) -> PlanForecast:
    forecaster = Forecaster(
        study, rows, assumption, type(requested.law), requested.delta, requested, advance
    )
    return forecaster.line(requested.epsilon)


def _check_colluders(study: Study, colluders: int) -> None:
    study_colluders, most = study.privacy.colluders, study.required_contributions - 2
    if study_colluders is not None and colluders != study_colluders:
        raise SettingError(
            f"study {study.name} says colluders {study_colluders}: leave --colluders out"
        )
    if study.covariance is Covariance.WITHIN:
        raise SettingError(
            "--colluders: covariance within owners needs each owner's own sums: choose trust: owner"
        )
    if not 1 <= colluders <= most:
        raise SettingError(
            f"--colluders {colluders}: with a quorum of {study.required_contributions} "
            f"it must be in 1..{most}"
        )
