"""What a study will cost and whether it can work, from public numbers: pure.

Everything follows from the study document, the expected rows of each owner and *assumed*
eigenvalues; nobody's rows are read, so a plan costs nothing and may be made as often as wanted.

Forecasts are rehearsals (`dppca.common.numerics.forecast`). A study **works** at an epsilon where
the components that it keeps are expected to capture at least 0.9 of the variance that as many best
ones would, works **in part** from 0.5 on, and **cannot work** below, or where no assumed component
stands above the noise edge. These lines are conventions of this module, not theorems.

What is searched is the largest scale of noise under which k components (the study's count, or what
its rule gives on the assumed eigenvalues without noise) capture 0.9 and the first stands above the
noise edge, by bisection to 2 %. From it
follow the smallest epsilon, ``k' Delta_1 / b`` or that of ``rho = k'^2 Delta_2^2 / (2 sigma^2)``
for k' rows of a person, and the rows and owners needed at the epsilon asked for: the noise of the
pooled moments is in proportion to ``scale * sqrt(m) / n``, so where the scale is f times what 0.9
allows, f times the rows of each owner make up for it, or f^2 times the owners. The squares of the
mean's noise, which fall faster, are neglected there.

Resolution: rounding adds at most ``4**-g / 12`` to a numeric column's variance; unit-ball rows,
rounded towards zero, lose half a step of coordinates of about ``1/sqrt(d)``. The advice is the
smallest g from 6 (below it nothing gets faster) to 14 that keeps this below a hundredth of the
k-th assumed eigenvalue, or of a coordinate; without numerics every grid is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import ceil, log2, sqrt

from dppca.common.errors import RangeError, SettingError
from dppca.common.numerics.forecast import ForecastSimulation, UtilityForecast
from dppca.common.numerics.spectrum.noise import Law
from dppca.common.numerics.spectrum.noise_edge import entry_noise
from dppca.common.numerics.spectrum.pca import count_components
from dppca.common.privacy.accounting import require_delta, require_epsilon
from dppca.common.privacy.mechanisms import Calibration, Mechanism
from dppca.common.privacy.release import calibrate
from dppca.common.relations import Relations, judge_relations, least_epsilon
from dppca.common.schema.layout import ColumnKind, Layout
from dppca.common.study import ComponentRule, Covariance, GaussianPrivacy, LaplacePrivacy, Study
from dppca.curator.planning.assumptions import Assumption
from dppca.curator.planning.choices import Choice, compare_choices

GOOD, POOR = 0.9, 0.5
GRID = tuple(Decimal(text) for text in ("0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20"))
_PRECISION = 1.02
_LEAST_GAIN = 0.01  # of captured variance, for which a delta is worth having
_RESOLUTIONS = range(6, 15)
_ROUNDING_SHARE = 0.01
_FACTORS = (1e-6, 1e6)


class Feasibility(StrEnum):
    """Whether a study can work at an epsilon, if the assumption holds."""

    WORKS = "works"
    IN_PART = "works in part"
    CANNOT = "cannot work"
    REFUSED = "refused"
    """Its integers could leave their range; it cannot be made."""


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One mechanism at one epsilon.

    Attributes
    ----------
    noise
        Standard deviation of the noise of one product in the pooled second moment, coded units.
    outlook
        None, as is ``noise``, where the study would be refused.
    asked
        Whether this is what the study asks for.
    """

    mechanism: Mechanism
    epsilon: Decimal
    delta: Decimal
    noise: float | None
    forecast: UtilityForecast | None
    verdict: Feasibility
    asked: bool


@dataclass(frozen=True, slots=True)
class PlanNeed:
    """What k components need of one mechanism to capture 0.9.

    Attributes
    ----------
    epsilon
        The smallest that is enough, three digits, rounded up.
    rows_per_owner, owners
        Enough at the epsilon asked for: rows of each of the study's owners on average, or owners
        with as many rows each as planned.

    All are None where a millionth of the noise asked for is still too much.
    """

    mechanism: Mechanism
    epsilon: Decimal | None
    rows_per_owner: int | None
    owners: int | None


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """All of a plan.

    ``k`` is what the needs are about; ``choices`` has the study as written first; ``relations`` is
    None for a schema without a field; bytes are of one owner.
    """

    study: Study
    rows: Mapping[str, int]
    assumption: Assumption
    k: int
    draws: int
    lines: tuple[PlanLine, ...]
    needs: tuple[PlanNeed, ...]
    choices: tuple[Choice, ...]
    relations: Relations | None
    resolution_bits: int
    bytes_up: int
    bytes_down: int

    @property
    def asked(self) -> PlanLine:
        """The study as it stands."""
        return next(line for line in self.lines if line.asked)

    @property
    def other(self) -> PlanLine | None:
        """The other mechanism at the epsilon asked for; None where there is no delta for it."""
        asked = self.asked
        others = (line for line in self.lines if line.epsilon == asked.epsilon and not line.asked)
        return next(others, None)

    @property
    def recommended(self) -> Mechanism:
        """What captures more at the epsilon asked for; Laplace, which needs no delta, if near."""
        if self.other is None:
            return self.asked.mechanism
        captured = {
            line.mechanism: -1.0 if line.forecast is None else line.forecast.captured
            for line in (self.asked, self.other)
        }
        gain = captured[Mechanism.GAUSSIAN] - captured[Mechanism.LAPLACE]
        return Mechanism.GAUSSIAN if gain > _LEAST_GAIN else Mechanism.LAPLACE

    def need(self, mechanism: Mechanism) -> PlanNeed:
        """What a mechanism of this plan needs."""
        return next(need for need in self.needs if need.mechanism is mechanism)


def make_plan(
    study: Study,
    rows: Mapping[str, int],
    assumption: Assumption,
    *,
    delta: Decimal | None,
    targets: Sequence[str] = (),
    grid: Sequence[Decimal] = GRID,
    advance: Callable[[], None] = lambda: None,
) -> StudyPlan:
    """Forecast a study, and both mechanisms over a grid of epsilons beside it.

    Parameters
    ----------
    rows
        Expected rows of each of the study's owners.
    delta
        For Gaussian noise where the study says none; None leaves Gaussian noise out then.
    targets
        Attributes whose products may weigh more: choices that are compared, beside the study's own.
    grid
        Epsilons beside the study's own.
    advance
        Called after each forecast.

    Raises
    ------
    SettingError
        Rows missing, below 1 or of an owner that is not in the study; a delta that is not one; a
        target that is no attribute.
    RangeError
        More rows than ``max_rows``, or a study that would be refused as it stands.
    """
    _check_rows(study, rows)
    asked = calibrate(study)
    owner_rows = [rows[owner] for owner in study.owners]
    layout = study.table.layout
    k = goal(study, assumption)
    lines: list[PlanLine] = []
    needs: list[PlanNeed] = []
    draws = 0
    for mechanism in (Mechanism.LAPLACE, Mechanism.GAUSSIAN):
        used_delta = _choose_delta(study, mechanism, delta)
        if used_delta is None:
            continue
        forecaster = _Forecaster(study, rows, assumption, mechanism, used_delta, asked, advance)
        epsilons = sorted({*grid, asked.epsilon})
        lines += [forecaster.line(epsilon) for epsilon in epsilons]
        needs.append(forecaster.need(k))
        draws = forecaster.draws
    return StudyPlan(
        study=study,
        rows=dict(rows),
        assumption=assumption,
        k=k,
        draws=draws,
        lines=tuple(lines),
        needs=tuple(needs),
        choices=compare_choices(study, asked, targets, owner_rows=owner_rows),
        relations=judge_relations(study, asked, owner_rows=owner_rows),
        resolution_bits=advised_resolution(layout, float(assumption.eigenvalues[k - 1])),
        bytes_up=8 * layout.n_entries,
        bytes_down=_result_bytes(study, k),
    )


def goal(study: Study, assumption: Assumption) -> int:
    """k: the study's count, or its rule on the assumed eigenvalues without noise."""
    return count_components(assumption.eigenvalues, study.components, noise_edge=0.0)


def advised_resolution(layout: Layout, eigenvalue: float) -> int:
    """Smallest g that is fine enough for an assumed eigenvalue; see the module."""
    if layout.unit_ball:
        bits = log2(sqrt(layout.n_columns) / (2 * _ROUNDING_SHARE))
    elif ColumnKind.NUMERIC in layout.kinds and eigenvalue > 0:
        bits = log2(1 / (12 * _ROUNDING_SHARE * eigenvalue)) / 2
    else:
        bits = 0.0
    return min(max(ceil(bits), _RESOLUTIONS.start), _RESOLUTIONS.stop - 1)


class _Forecaster:
    """One mechanism's rehearsal and its searches."""

    def __init__(
        self,
        study: Study,
        rows: Mapping[str, int],
        assumption: Assumption,
        mechanism: Mechanism,
        delta: Decimal,
        asked: Calibration,
        advance: Callable[[], None],
    ) -> None:
        self._study = study
        self._rows = [rows[owner] for owner in study.owners]
        self._mechanism = mechanism
        self._delta = delta
        self._asked = asked
        self._advance = advance
        self._law: Law = "laplace" if mechanism is Mechanism.LAPLACE else "gaussian"
        self._simulation = ForecastSimulation(
            study.table.layout,
            assumption.eigenvalues,
            law=self._law,
            owner_rows=self._rows,
            covariance=study.covariance,
            seed=int(study.digest[:16], 16),
        )

    @property
    def draws(self) -> int:
        return self._simulation.draws

    def line(self, epsilon: Decimal) -> PlanLine:
        asked = self._is_asked(epsilon)
        try:
            scale = self._scale(epsilon)
        except RangeError:
            self._advance()
            return PlanLine(
                self._mechanism, epsilon, self._delta, None, None, Feasibility.REFUSED, asked
            )
        forecast = self._forecast(scale, self._study.components)
        noise = entry_noise(
            self._study.table.layout, mechanism=self._law, scale=scale, owner_rows=self._rows
        )
        return PlanLine(
            self._mechanism, epsilon, self._delta, noise, forecast, _judge(forecast), asked
        )

    def need(self, k: int) -> PlanNeed:
        try:
            scale = self._scale(self._asked.epsilon)
        except RangeError:
            return PlanNeed(self._mechanism, None, None, None)
        factor = self._excess(scale, ComponentRule(count=k))
        if factor is None:
            return PlanNeed(self._mechanism, None, None, None)
        mean_rows = sum(self._rows) / len(self._rows)
        return PlanNeed(
            self._mechanism,
            least_epsilon(
                self._asked, scale / factor, mechanism=self._mechanism, delta=self._delta
            ),
            ceil(mean_rows * factor),
            ceil(len(self._rows) * factor**2),
        )

    def _excess(self, scale: float, rule: ComponentRule) -> float | None:
        """How many times what 0.9 allows a scale is; None out of reach."""
        low, high = _FACTORS  # of the scale: enough, and too much
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

    def _is_asked(self, epsilon: Decimal) -> bool:
        return self._mechanism is self._asked.mechanism and epsilon == self._asked.epsilon

    def _scale(self, epsilon: Decimal) -> float:
        """b or sigma at an epsilon; `RangeError` where the study would be refused."""
        calibration = self._asked
        if not self._is_asked(epsilon):
            calibration = calibrate(
                with_privacy(self._study, self._mechanism, epsilon, self._delta)
            )
        return calibration.width


def with_privacy(study: Study, mechanism: Mechanism, epsilon: Decimal, delta: Decimal) -> Study:
    """The same study under another mechanism or epsilon."""
    require_epsilon(epsilon)
    privacy: LaplacePrivacy | GaussianPrivacy
    if mechanism is Mechanism.LAPLACE:
        privacy = LaplacePrivacy(mechanism="laplace", epsilon=epsilon)
    else:
        require_delta(delta)
        privacy = GaussianPrivacy(mechanism="gaussian", epsilon=epsilon, delta=delta)
    return study.model_copy(update={"privacy": privacy})


def _judge(forecast: UtilityForecast) -> Feasibility:
    if forecast.captured < POOR or forecast.above == 0:
        return Feasibility.CANNOT
    return Feasibility.WORKS if _is_enough(forecast) else Feasibility.IN_PART


def _is_enough(forecast: UtilityForecast) -> bool:
    return forecast.captured >= GOOD and forecast.above > 0


def _choose_delta(study: Study, mechanism: Mechanism, delta: Decimal | None) -> Decimal | None:
    """Delta of a mechanism's lines; None leaves them out."""
    if mechanism is Mechanism.LAPLACE:
        return Decimal(0)
    if isinstance(study.privacy, GaussianPrivacy):
        if delta is not None and delta != study.privacy.delta:
            raise SettingError(
                f"study {study.name} says delta {study.privacy.delta}: leave --delta out"
            )
        return study.privacy.delta
    return delta


def _check_rows(study: Study, rows: Mapping[str, int]) -> None:
    missing = [owner for owner in study.owners if owner not in rows]
    unknown = sorted(set(rows) - set(study.owners))
    if missing or unknown:
        problems = [f"no rows for {', '.join(missing)}"] if missing else []
        problems += [f"{', '.join(unknown)} not in study {study.name}"] if unknown else []
        raise SettingError("; ".join(problems))
    few = [owner for owner in study.owners if rows[owner] < 1]
    if few:
        raise SettingError(f"every owner has at least 1 row, but not {', '.join(few)}")
    total = sum(rows.values())
    if total > study.max_rows:
        raise RangeError(
            f"{total} rows together, but study {study.name} allows {study.max_rows}: give it a "
            "larger max_rows"
        )


def _result_bytes(study: Study, k: int) -> int:
    """Arrays of a result (`dppca.common.results`): moments, mean, eigenvalues, k vectors."""
    layout = study.table.layout
    p = layout.n_columns
    within = p * p if study.covariance is Covariance.WITHIN else 0
    return 8 * (layout.n_entries + layout.n_sums + p + k * p + within)
