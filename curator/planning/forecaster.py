"""Forecasts under one noise law, and the smallest epsilon, rows and owners that suffice.

Forecasts are simulations (`dppca.common.analysis.forecast`). A study **works** at an epsilon if
the components that it keeps are expected to capture at least 0.9 of the variance that as many best
ones would, **works in part** from 0.5 on, and **cannot work** below, or if no assumed component
stands above the noise edge. These limits are conventions of this module, not theorems.

The search finds the largest scale of noise under which k components (the study's count, or the
result of its rule on the assumed eigenvalues without noise) capture 0.9 and the first stands above
the noise edge, by bisection to 2 %. From it follow the smallest epsilon, ``k' Delta_1 / b`` or the
epsilon of ``rho = k'^2 Delta_2^2 / (2 sigma^2)`` for k' rows of a person, and the rows and owners
needed at the requested epsilon: the noise of the pooled moments is in proportion to
``scale * sqrt(m) / n``, so if the scale is f times the scale that 0.9 allows, f times the rows of
each owner compensate for it, or f^2 times the owners (`dppca.common.analysis.estimators.relations`
has the same for ``trust: aggregate``). The squares of the mean's noise, which fall faster, are
neglected.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import ceil, sqrt
from typing import Annotated

import numpy as np

from dppca.common.analysis.estimates.forecast import ForecastWidth
from dppca.common.analysis.estimators.relations import least_epsilon, least_owners
from dppca.common.analysis.forecast import ForecastSimulation, UtilityForecast
from dppca.common.analysis.outlook import expected_widths
from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.analysis.table_forecast import TableForecast, forecast_tables
from dppca.common.kernel.errors import RangeError, StudyError
from dppca.common.kernel.privacy.accounting import require_delta, require_epsilon
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise_law import Noised, NoiseLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import ComponentRule, Study, make_privacy
from dppca.curator.planning.assumptions import Assumption

GOOD, POOR = 0.9, 0.5  # share of the variance from which a study works, and below which it cannot
_PRECISION = 1.02  # ratio of the two ends at which the search stops
_FACTORS = (1e-6, 1e6)  # of the noise's scale, between which it is sought


class Feasibility(StrEnum):
    """Verdict on a study at an epsilon, if the assumption holds."""

    WORKS = "works"
    IN_PART = "works in part"
    CANNOT = "cannot work"
    REFUSED = "refused"
    """Its integers could leave their range, or its noise is too small for shares."""


@dataclass(frozen=True, slots=True)
class PlanForecast:
    """One mechanism at one epsilon; noise and forecast are None if it would be refused."""

    mechanism: Annotated[str, "noise"]
    epsilon: Annotated[Decimal, "epsilon of each owner's release"]
    delta: Annotated[Decimal, "delta of each owner's release"]
    noise: Annotated[float | None, "standard deviation of a pooled product, coded units"]
    forecast: Annotated[UtilityForecast | None, "what is found"]
    tables: Annotated[
        TableForecast | None,
        "two-way tables of as many synthetic rows, numerics in 20 equal cells; null for unit-ball "
        "rows, a single attribute, tables alone or a refused study",
    ]
    widths: Annotated[
        tuple[ForecastWidth, ...],
        "intervals that `estimate` will give, if values are spread evenly; none of a refused study",
    ]
    verdict: Annotated[Feasibility, "whether the study can work"]
    asked: Annotated[bool, "whether this is what the study asks for"]


@dataclass(frozen=True, slots=True)
class PlanNeed:
    """Needs of one mechanism to capture 0.9; None if a millionth of the noise is too much."""

    mechanism: Annotated[str, "noise"]
    epsilon: Annotated[Decimal | None, "smallest epsilon that is enough, three digits"]
    rows_per_owner: Annotated[int | None, "rows of each owner that are enough, on average"]
    owners: Annotated[int | None, "owners that are enough, with as many rows each as planned"]


class Forecaster:
    """Simulation of one noise law, and its searches."""

    def __init__(
        self,
        study: Study,
        rows: Mapping[str, int],
        assumption: Assumption,
        law: type[NoiseLaw],
        delta: Decimal,
        requested: Calibration,
        advance: Callable[[], None],
    ) -> None:
        self._study = study
        self._rows = [rows[owner] for owner in study.owners]
        self._law = law
        self._delta = delta
        self._requested = requested
        self._advance = advance
        self._table = with_privacy(study, law, requested.epsilon, delta).table
        self._mechanisms = law.pooled(self._table.layout, len(self._rows), study.n_honest_owners)
        self._simulation = ForecastSimulation(
            self._table.layout,
            np.array(assumption.eigenvalues),
            law=law,
            owner_rows=self._rows,
            covariance=study.covariance,
            seed=int(study.digest[:16], 16),
            mechanisms=self._mechanisms,
        )

    @property
    def draws(self) -> int:
        """Number of simulated draws of noise."""
        return self._simulation.draws

    def line(self, epsilon: Decimal) -> PlanForecast:
        """Forecast at one epsilon."""
        requested = self._is_requested(epsilon)
        try:
            calibration = self._calibration(epsilon)
        except (RangeError, StudyError):
            self._advance()
            refused = Feasibility.REFUSED
            return PlanForecast(
                self._law.name, epsilon, self._delta, None, None, None, (), refused, requested
            )
        scale = calibration.law.width
        forecast = self._forecast(scale, self._study.require_components())
        noise = entry_noise(
            self._table.layout,
            deviation=calibration.law.deviation_of(Noised.PRODUCT, self._table.layout),
            owner_rows=self._rows,
            mechanisms=self._mechanisms,
        )
        tables = forecast_tables(self._table, noise, sum(self._rows), joint=self._law.is_joint)
        return PlanForecast(
            *(self._law.name, epsilon, self._delta, noise, forecast, tables),
            expected_widths(
                self._study.model_copy(update={"table": self._table}), calibration, self._rows
            ),
            *(_judge(forecast), requested),
        )

    def need(self, k: int) -> PlanNeed:
        """Needs of k components at the study's epsilon."""
        try:
            calibration = self._calibration(self._requested.epsilon)
        except (RangeError, StudyError):
            return PlanNeed(self._law.name, None, None, None)
        scale = calibration.law.width
        factor = self._excess(scale, ComponentRule(count=k))
        if factor is None:
            return PlanNeed(self._law.name, None, None, None)
        mean_rows = sum(self._rows) / len(self._rows)
        return PlanNeed(
            self._law.name,
            least_epsilon(calibration, scale / factor),
            ceil(mean_rows * factor),
            least_owners(len(self._rows), factor, honest=self._study.n_honest_owners),
        )

    def _excess(self, scale: float, rule: ComponentRule) -> float | None:
        """Ratio of a scale to the largest that captures 0.9; None if that is out of reach."""
        low, high = _FACTORS  # factors of the scale: enough, and too much
        if not _is_enough(self._forecast(scale * low, rule)):
            return None
        if _is_enough(self._forecast(scale * high, rule)):
            return 1 / high
        while high / low > _PRECISION:
            middle = sqrt(low * high)
            if _is_enough(self._forecast(scale * middle, rule)):
                low = middle
            else:
                high = middle
        return 1 / low

    def _forecast(self, scale: float, rule: ComponentRule) -> UtilityForecast:
        forecast = self._simulation.forecast(scale, rule)
        self._advance()
        return forecast

    def _is_requested(self, epsilon: Decimal) -> bool:
        return isinstance(self._requested.law, self._law) and epsilon == self._requested.epsilon

    def _calibration(self, epsilon: Decimal) -> Calibration:
        """Noise at an epsilon; raise `RangeError` or `StudyError` if it would be refused."""
        if self._is_requested(epsilon):
            return self._requested
        return calibrate(with_privacy(self._study, self._law, epsilon, self._delta))


def with_privacy(study: Study, law: type[NoiseLaw], epsilon: Decimal, delta: Decimal) -> Study:
    """Return the study under another law or epsilon; only a law that needs ``delta`` uses it."""
    require_epsilon(epsilon)
    privacy = make_privacy(
        mechanism=law.name,
        epsilon=epsilon,
        delta=require_delta(delta) if law.needs_delta else None,
        trust=study.privacy.trust,
        colluders=study.privacy.colluders,
    )
    ball, table = study.table.row_norm, study.table
    if privacy.is_joint and table.square_weight > 1:
        table = Schema.from_document(table.model_dump(mode="json") | {"square_weight": 1})
    if ball is not None and not privacy.halves_products:  # under this law products are as others
        whole = ball.model_copy(update={"halved_products": False})
        table = Schema.from_document(
            table.model_dump(mode="json") | {"row_norm": whole.model_dump()}
        )
    return study.model_copy(update={"privacy": privacy, "table": table})


def _judge(forecast: UtilityForecast) -> Feasibility:
    if forecast.captured < POOR or forecast.above == 0:
        return Feasibility.CANNOT
    return Feasibility.WORKS if _is_enough(forecast) else Feasibility.IN_PART


def _is_enough(forecast: UtilityForecast) -> bool:
    return forecast.captured >= GOOD and forecast.above > 0
