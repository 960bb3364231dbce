"""Plan of a study: its costs and forecast from public numbers. Pure functions.

The inputs are the study document, the expected rows of each owner and *assumed* eigenvalues. No
rows are read, so a plan costs nothing and may be made any number of times.

`dppca.curator.planning.forecaster` makes forecasts and needs, `dppca.curator.planning.trusts`
compares kinds of trust, and `dppca.curator.planning.choices` compares choices of a schema.

Resolution: rounding adds at most ``4**-g / 12`` to a numeric column's variance; unit-ball rows,
rounded towards zero, lose half a step of coordinates of about ``1/sqrt(d)``. The advice is the
smallest g from 6 (below it nothing gets faster) to 14 that keeps this below a hundredth of the
k-th assumed eigenvalue, or of a coordinate; without numerics every grid is exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, log2, sqrt
from typing import Annotated

import numpy as np

from dppca.common.analysis.estimates.forecast import QuestionForecast
from dppca.common.analysis.estimates.reasons import RuledOut, ruled_out
from dppca.common.analysis.estimators.relations import Relations, judge_relations
from dppca.common.analysis.field.heaps import find_wide_bins
from dppca.common.analysis.outlook import expected_answers
from dppca.common.analysis.rows.refinement import PlannedRounds, plan_rounds
from dppca.common.analysis.spectrum.pca import count_components
from dppca.common.kernel.aggregation.sum_messages import upload_limit
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.tables import html_table, html_text
from dppca.common.kernel.documents.values import DigestText, PathText
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.laws import every_law
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema.layout import ColumnKind, Layout
from dppca.common.kernel.study import Covariance, Study, Trust
from dppca.curator.planning.assumptions import Assumption
from dppca.curator.planning.choices import Choice, compare_choices
from dppca.curator.planning.count_weight import ProposedCountWeight, propose_count_weight
from dppca.curator.planning.covariance_noise import CLEARLY, JOINT_BITS, can_have, compare_laws
from dppca.curator.planning.forecaster import Forecaster, PlanForecast, PlanNeed
from dppca.curator.planning.neighbours import PlannedPromise, compare_promises
from dppca.curator.planning.proposals import Course, NumbersProposal, advise_course, propose_numbers
from dppca.curator.planning.trusts import PlanTrust, compare_trusts

GRID = tuple(Decimal(text) for text in ("0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20"))
_LEAST_GAIN = 0.01  # captured variance that justifies a delta
_RESOLUTIONS = range(6, 15)
_ROUNDING_SHARE = 0.01  # of an assumed eigenvalue, that rounding to a grid may add


@dataclass(frozen=True, slots=True)
class PlanSeconds:
    """Times on one core of this machine; the transfer is at ``megabits`` a second."""

    draw: Annotated[float, "seconds for an owner's noise"]
    decompose: Annotated[float, "seconds for the curator's decomposition"]
    transfer: Annotated[float, "seconds for an owner's bytes, up and down"]
    megabits: Annotated[float, "megabits a second that the transfer assumes"]


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """Costs of a study and its forecast, from public numbers; bytes are of one owner."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    rows: Annotated[Mapping[str, int], "expected rows of each owner"]
    assumption: Annotated[Assumption, "the assumed eigenvalues"]
    components: Annotated[int, "components that the needs are about"]
    draws: Annotated[int, "simulated draws of noise"]
    forecasts: Annotated[tuple[PlanForecast, ...], "every mechanism over a grid of epsilons"]
    needs: Annotated[
        tuple[PlanNeed, ...], "what each mechanism needs to capture 0.9 of the best variance"
    ]
    choices: Annotated[
        tuple[Choice, ...], "what choices of the schema cost and gain; first the study as written"
    ]
    trusts: Annotated[
        tuple[PlanTrust, ...], "as the study stands, and under the other trust, if asked"
    ]
    promises: Annotated[
        tuple[PlannedPromise, ...],
        "noise with rows replaced and with rows added, at the same epsilon; first as it stands",
    ]
    relations: Annotated[
        Relations | None,
        "whether synthetic rows will show relations; null for unit-ball rows or one attribute",
    ]
    rounds: Annotated[
        PlannedRounds | None,
        "the same budget in two studies, the second of which continues the first; null for unit-"
        "ball rows",
    ]
    course: Annotated[
        Course, "for which trees the noise leaves room, if several attributes decide together"
    ]
    numbers: Annotated[
        NumbersProposal | None,
        "bins or histograms that the noise allows; null for unit-ball rows or without numbers",
    ]
    wide_bins: Annotated[
        tuple[str, ...],
        "numerics without spikes whose bins hold several whole numbers: a number that many "
        "rows have is spread over its bin",
    ]
    resolution_bits: Annotated[int, "binary digits of a coded value, as the study stands"]
    recommended_bits: Annotated[int, "binary digits that are fine enough"]
    bytes_up: Annotated[int, "bytes that an owner sends"]
    bytes_down: Annotated[int, "bytes that an owner receives, about"]
    covariance: Annotated[
        Mapping[str, float],
        "noise of an entry of the covariance by mechanism, after least squares, in coded units",
    ]
    ruled_out: Annotated[
        tuple[RuledOut, ...], "questions that no result of the study can answer, and why"
    ] = ()
    questions: Annotated[
        tuple[QuestionForecast, ...], "what the study's own questions would get, as it stands"
    ] = ()
    count_weight: Annotated[
        ProposedCountWeight | None,
        "weight of the noised number of rows by a forecast; null where it is public, or has none",
    ] = None
    seconds: Annotated[PlanSeconds | None, "times; null where nothing was timed"] = None
    plot: Annotated[PathText | None, "the plot; with `--plot`"] = None

    @property
    def requested(self) -> Annotated[PlanForecast, "the study as it stands"]:
        """Forecast of the study as it stands."""
        return next(line for line in self.forecasts if line.asked)

    @property
    def alternative(self) -> PlanForecast | None:
        """Best forecast of another mechanism at the same epsilon; None if there is none."""
        return max((line for line in self._compared if not line.asked), key=_captured, default=None)

    @property
    def _compared(self) -> list[PlanForecast]:
        """Forecasts of all mechanisms at the study's own epsilon."""
        return [line for line in self.forecasts if line.epsilon == self.requested.epsilon]

    @property
    def _best(self) -> tuple[PlanForecast, PlanForecast | None]:
        """The mechanism that captures most, if close one without a delta, and the study's own."""
        best = max(self._compared, key=_captured)
        close = [
            line
            for line in self._compared
            if not every_law()[line.mechanism].needs_delta
            and _captured(best) - _captured(line) <= _LEAST_GAIN
        ]
        best = max(close, key=self._preference, default=best)
        others = (line for line in self._compared if line is not best)
        return best, max(others, key=_captured, default=None)

    def _preference(self, line: PlanForecast) -> tuple[float, float]:
        """Among lines that are close: less noise of the covariance, if clearly less; then more."""
        noise = self.covariance.get(line.mechanism, float("inf"))
        return (-noise * (CLEARLY if line.asked else 1), _captured(line))

    @property
    def recommended(self) -> Annotated[str, "noise that the plan recommends"]:
        """Mechanism that captures more at the same epsilon; if close, the one without delta."""
        return self._best[0].mechanism

    @property
    def reason(self) -> Annotated[str, "why this noise, in words"]:
        """Reason for `recommended`, in words."""
        best, other = self._best
        if other is None:
            needs_none = not every_law()[best.mechanism].needs_delta
            why = "Gaussian noise needs a delta (--delta)" if needs_none else "nothing else fits"
            return f"no other noise was compared; {why}"
        deltas = {line.mechanism: every_law()[line.mechanism].needs_delta for line in (best, other)}
        with_delta_first = sorted((best, other), key=lambda line: not deltas[line.mechanism])
        parts = [
            f"{line.mechanism.title()} noise keeps "
            + ("none" if line.forecast is None else f"{100 * line.forecast.captured:.1f} %")
            for line in with_delta_first
        ]
        beside = f"{' and '.join(parts)} of the variance"
        if deltas[best.mechanism] == deltas[other.mechanism]:
            return beside
        if deltas[best.mechanism]:
            return f"{beside}; its price is the delta"
        return f"{beside}; a delta would add less than 1 %"

    def __repr__(self) -> str:
        most = 8
        lines = [
            f"  {noise} noise, epsilon {epsilon}, delta {delta}: {captured or 'nothing'} of the "
            f"variance is captured; {verdict}{' (asked)' if requested else ''}"
            for requested, noise, epsilon, delta, captured, verdict in self._rows
            if requested
            or len(self.forecasts) <= most
            or epsilon == decimal_text(self.requested.epsilon)
        ]
        return "\n".join([self._title, *lines[:most], f"  {self._advice}"])

    def _repr_html_(self) -> str:
        """Return the forecasts as an HTML table that marks the study as it stands."""
        head = ("", "noise", "epsilon", "delta", "of the variance is captured", "verdict")
        table = html_table(head, self._rows, caption=self._title)
        return f"{table}<p>{html_text(self._advice)}</p>"

    @property
    def _title(self) -> str:
        return f"Study {self.study}, if {self.assumption.source}"

    @property
    def _advice(self) -> str:
        return f"Recommended: {self.recommended} noise; {self.reason}."

    @property
    def _rows(self) -> list[tuple[str, str, str, str, str, str]]:
        return [
            (
                "asked" if line.asked else "",
                line.mechanism,
                decimal_text(line.epsilon),
                decimal_text(line.delta),
                "" if line.forecast is None else f"{line.forecast.captured:.0%}",
                line.verdict.value,
            )
            for line in self.forecasts
        ]

    def need(self, mechanism: str) -> PlanNeed:
        """Needs of one mechanism of this plan."""
        return next(need for need in self.needs if need.mechanism == mechanism)


def make_plan(
    study: Study,
    rows: Mapping[str, int],
    assumption: Assumption,
    *,
    delta: Decimal | None,
    targets: Sequence[str] = (),
    colluders: int | None = None,
    grid: Sequence[Decimal] = GRID,
    advance: Callable[[], None] = lambda: None,
) -> StudyPlan:
    """Forecast a study, and every mechanism over a grid of epsilons beside it.

    ``rows`` are those expected of each of the study's owners; ``delta`` and ``targets`` are as in
    `dppca.plan`. ``colluders`` is t, to show ``trust: aggregate`` beside a study that does not have
    it; None leaves it out. ``grid`` has epsilons besides the study's own; ``advance`` is called
    after each forecast. Raise `SettingError` for rows missing, below 1 or of an owner that is not
    in the study, a delta that differs from the study's, a target that is no attribute, and
    colluders that are not the study's, or too many; `TooManyRowsError` for more rows of an owner
    than its part of ``max_rows``; `RangeError` for a study that would be refused as it stands.
    """
    _check_rows(study, rows)
    requested = calibrate(study)
    owner_rows = [rows[owner] for owner in study.owners]
    layout = study.table.layout
    k = goal(study, assumption)
    lines: list[PlanForecast] = []
    needs: list[PlanNeed] = []
    draws = 0
    for law in every_law().values():
        used_delta = _choose_delta(study, law, delta)
        if used_delta is None or not can_have(study, law):
            continue
        forecaster = Forecaster(study, rows, assumption, law, used_delta, requested, advance)
        epsilons = sorted({*grid, requested.epsilon})
        lines += [forecaster.line(epsilon) for epsilon in epsilons]
        needs.append(forecaster.need(k))
        draws = forecaster.draws
    own = next(line for line in lines if line.asked)
    rounds = plan_rounds(study, requested, n_rows=sum(owner_rows))
    return StudyPlan(
        study=study.name,
        digest=study.digest,
        questions=expected_answers(study, requested, owner_rows),
        ruled_out=ruled_out(study.table),
        rows=dict(rows),
        assumption=assumption,
        components=k,
        draws=draws,
        forecasts=tuple(lines),
        needs=tuple(needs),
        choices=compare_choices(study, requested, targets, owner_rows=owner_rows),
        trusts=compare_trusts(study, rows, assumption, colluders, own, advance),
        promises=compare_promises(study, requested, owner_rows),
        relations=judge_relations(study, requested, owner_rows=owner_rows),
        count_weight=propose_count_weight(study.table, requested, owner_rows),
        rounds=rounds,
        course=advise_course(study.table, requested, rounds, owner_rows=owner_rows),
        numbers=propose_numbers(study.table, requested, owner_rows=owner_rows),
        wide_bins=find_wide_bins(study.table),
        resolution_bits=study.table.resolution_bits,
        recommended_bits=JOINT_BITS
        if requested.law.is_joint
        else advised_resolution(layout, assumption.eigenvalues[k - 1]),
        covariance=compare_laws(
            study, owner_rows, epsilon=requested.epsilon, delta=delta or study.privacy.delta
        ),
        bytes_up=8 * layout.n_entries
        if study.trust is Trust.OWNER
        else upload_limit(Terms.from_study(study)),
        bytes_down=_result_bytes(study, k),
    )


def goal(study: Study, assumption: Assumption) -> int:
    """k: the study's count, or its rule on the assumed eigenvalues without noise."""
    return count_components(
        np.array(assumption.eigenvalues), study.require_components(), noise_edge=0.0
    )


def advised_resolution(layout: Layout, eigenvalue: float) -> int:
    """Smallest g that is fine enough for an assumed eigenvalue; see the module."""
    if layout.unit_ball:
        bits = log2(sqrt(layout.n_columns) / (2 * _ROUNDING_SHARE))
    elif ColumnKind.NUMERIC in layout.kinds and eigenvalue > 0:
        bits = log2(1 / (12 * _ROUNDING_SHARE * eigenvalue)) / 2
    else:
        bits = 0.0
    return min(max(ceil(bits), _RESOLUTIONS.start), _RESOLUTIONS.stop - 1)


def _captured(line: PlanForecast) -> float:
    return -1.0 if line.forecast is None else line.forecast.captured


def _choose_delta(study: Study, law: type[NoiseLaw], delta: Decimal | None) -> Decimal | None:
    """Delta for a law's forecasts; None leaves them out."""
    if not law.needs_delta:
        return Decimal(0)
    study_delta = study.privacy.delta
    if study_delta is not None and delta not in (None, study_delta):
        raise SettingError(f"study {study.name} says delta {study_delta}: leave --delta out")
    return delta if study_delta is None else study_delta


def _check_rows(study: Study, rows: Mapping[str, int]) -> None:
    missing = [owner for owner in study.owners if owner not in rows]
    unknown = sorted(set(rows) - set(study.owners))
    if missing or unknown:
        problems = [f"no rows for {', '.join(missing)}: say how many each has"] if missing else []
        if unknown:
            owners = ", ".join(study.owners)
            problems.append(
                f"no owner of study {study.name}: {', '.join(unknown)} (it has {owners})"
            )
        raise SettingError("; ".join(problems))
    few = [owner for owner in study.owners if rows[owner] < 1]
    if few:
        raise SettingError(f"every owner has at least 1 row, but not {', '.join(few)}")
    for owner in study.owners:
        study.require_room(owner, rows[owner])


def _result_bytes(study: Study, k: int) -> int:
    """Size of a result's arrays, see `dppca.common.kernel.attestation.results`."""
    layout = study.table.layout
    p = layout.n_columns
    within = p * p if study.covariance is Covariance.WITHIN else 0
    return 8 * (layout.n_entries + layout.n_sums + p + k * p + within)
