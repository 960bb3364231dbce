"""Plan as text; its JSON document contains every figure of the text."""

from decimal import Decimal

from dppca.common.analysis.estimates.reasons import describe_ruled_out
from dppca.common.analysis.estimators.relations import relations_lines
from dppca.common.analysis.forecast import UtilityForecast
from dppca.common.analysis.rows.refinement import PlannedRounds
from dppca.common.analysis.table_forecast import JUDGED, TableForecast
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.tables import text_table
from dppca.curator.planning.choices import PooledNoise
from dppca.curator.planning.forecaster import GOOD, Feasibility, PlanNeed
from dppca.curator.planning.plan import StudyPlan
from dppca.curator.planning.proposals import Course, NumbersProposal

_SHOWN = 8  # eigenvalues
_MOMENT_S = 0.1  # shorter times are not noticed
_RARE = 0.001  # a rarer refusal is not worth a line


def plan_text(
    plan: StudyPlan, *, width: int | None = None, details: bool = True, choices: bool = True
) -> str:
    """Return the plan as text, the verdict first.

    ``width`` is the terminal's; without ``details`` the assumption and the wide table of forecasts
    are left out, without ``choices`` what other choices of the schema cost.
    """
    parts = [
        _verdict(plan),
        *([_head(plan)] if details else []),
        _plain(plan),
        *([_table(plan, width)] if details else []),
        _widths(plan, width),
        _answers(plan, details=details),
        [describe_ruled_out(each) for each in plan.ruled_out],
        _trusts(plan, width),
        _promises(plan, details=details),
        relations_lines(plan.relations),
        [] if plan.numbers is None else _numbers(plan.numbers),
        [] if plan.rounds is None else _rounds(plan, plan.rounds),
        *([_choices(plan, width)] if details or choices else []),
        _costs(plan),
        *([] if details else [["All figures, and what other choices cost: --details"]]),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _head(plan: StudyPlan) -> list[str]:
    p = len(plan.assumption.eigenvalues)
    values = "  ".join(f"{value:.3g}" for value in plan.assumption.eigenvalues[:_SHOWN])
    return [
        f"Assumed, not measured: {plan.assumption.source}",
        f"  {values}{'  ...' if p > _SHOWN else ''}",
        f"Forecast from {plan.draws} simulated draws of noise; captured is the share of the "
        "variance that the best components of this number would hold",
    ]


_BEST_CASE = (
    "  this is the best case. An earlier result with the same columns says more: --spectrum "
    "RESULT.npz"
)


def _plain(plan: StudyPlan) -> list[str]:
    """Forecast of the study as it stands, in whole percent."""
    requested, forecast = plan.requested, plan.requested.forecast
    if forecast is None:
        return []
    p = len(plan.assumption.eigenvalues)
    return [
        f"In plain numbers, at epsilon {decimal_text(requested.epsilon)} ({requested.mechanism}):",
        f"  {forecast.above} of {p} components would stand above the noise; "
        f"{forecast.count} would be kept",
        f"  these would hold {_spread(forecast)} of the variance that the best {forecast.count} "
        f"could hold; random directions, {_percent(forecast.chance)} %",
        *([_BEST_CASE] if plan.assumption.is_best_case else []),
        *([] if requested.tables is None else [_rows(requested.tables)]),
    ]


def _promises(plan: StudyPlan, *, details: bool) -> list[str]:
    """Both relations, in details; else what becomes of a number of rows that is secret."""
    shown = [each for each in plan.promises if details or (each.count is not None and each.asked)]
    lines = []
    for each in shown:
        told = "the number of rows is public"
        if each.count is not None and each.refusal is not None:
            told = f"the number of rows is secret, its noise {each.count.rows:.3g} rows"
            if each.refusal >= _RARE:
                told += (
                    f"; in {_percent(each.refusal)} % of such studies it is below five times that, "
                    "and the study ends without a result: nothing that was charged comes back"
                )
        asked = " (asked)" if each.asked else ""
        noise = f"a product's noise is {each.product.rows:.3g} rows"
        lines.append(f"  neighbours: {each.neighbours.value}{asked}: {noise}; {told}")
    if len(lines) > 1:
        lines.append("  the same epsilon promises other things under the two: choose by these")
    return ["What the promise compares:", *lines] if lines else []


def _widths(plan: StudyPlan, width: int | None) -> list[str]:
    """How wide intervals will be under the study's law: a column for each epsilon."""
    requested = plan.requested
    lines = [
        line for line in plan.forecasts if line.mechanism == requested.mechanism and line.widths
    ]
    if not (lines and requested.widths):
        return []
    near = lines.index(requested)
    lines = lines[max(0, near - 2) : near + 3]
    questions = [
        (f"  {asked.question}", *(line.widths[place].text for line in lines))
        for place, asked in enumerate(requested.widths)
    ]
    names = ("  epsilon of each owner", *(decimal_text(line.epsilon) for line in lines))
    return [
        "Intervals of 95 % by `estimate`, for each epsilon, if values are spread evenly over their "
        "bounds:",
        *text_table(names, questions, width=width, right=range(1, len(names))),
    ]


def _rows(tables: TableForecast) -> str:
    limit = tables.better_below
    order = (
        "noise covers which form of the study would be better"
        if limit is None
        else f"other forms of the study are about as good, unless theirs is below {limit:.2g}"
    )
    return (
        f"Rows: as many synthetic rows would have two-way tables off by {tables.low:.2g} to "
        f"{tables.high:.2g} in nine of ten studies, most likely by {tables.likely:.2g} (total "
        f"variation, mean over all pairs, numbers in {JUDGED} cells); {order}"
    )


def _numbers(numbers: NumbersProposal) -> list[str]:
    kept = " (as the study has them)" if numbers.as_written else ""
    return [
        f"Numbers, by a noise of {numbers.noise:.3g} of {numbers.rows} rows{kept}: {numbers.words}"
    ]


_GAINS = {
    Course.ROUNDS: "Random trees in one study would cost more than they show",
    Course.BOTH: "Random trees in one study give a quarter to two thirds of the gain",
}


def _rounds(plan: StudyPlan, rounds: PlannedRounds) -> list[str]:
    size, whole = rounds.size, decimal_text(plan.requested.epsilon)
    counted = (
        f"{size.trees} trees of {size.leaves} leaves: {size.rows_per_leaf:.0f} rows in a leaf, a "
        f"count's noise {size.noise:.0f}"
    )
    if not size.is_clear:
        return [
            f"In two studies (study refine) epsilon {whole} is too little: {counted} would hide "
            "the counts"
        ]
    return [
        f"In two studies (study refine): epsilon {rounds.epsilon:.4g} each, {whole} together. The "
        f"second counts rows in {counted}",
        "  it pays where three attributes or more decide together; for curves of numbers, bins are "
        f"as good at epsilon 1. {_GAINS[plan.course]}",
    ]


def _spread(forecast: UtilityForecast) -> str:
    """Captured share, and the range of nine runs of ten if it differs."""
    least, most = _percent(forecast.captured_low), _percent(forecast.captured_high)
    found = _percent(forecast.captured)
    if least == found == most:
        return f"{found} %"
    return f"{found} % ({least} to {most} in nine runs of ten)"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _table(plan: StudyPlan, width: int | None) -> list[str]:
    names = (
        "  mechanism",
        "epsilon",
        "noise edge",
        "above",
        "kept",
        "captured",
        "9 runs of 10",
        "by chance",
        "angle",
        "verdict",
    )
    rows: list[tuple[str, ...]] = []
    for line in plan.forecasts:
        start = f"{'*' if line.asked else ' '} {line.mechanism}", decimal_text(line.epsilon)
        forecast = line.forecast
        if forecast is None:
            why = "" if plan.trusts[0].honest is None else ", or its noise is too small for shares"
            note = f"{line.verdict.value}: its integers could leave their range{why}"
            rows.append((*start, *[""] * (len(names) - 3), note))
            continue
        rows.append(
            (
                *start,
                f"{forecast.noise_edge:.3g}",
                str(forecast.above),
                str(forecast.count),
                f"{forecast.captured:.3f}",
                f"{forecast.captured_low:.3f} to {forecast.captured_high:.3f}",
                f"{forecast.chance:.3f}",
                f"{forecast.angle:.0f}°",
                line.verdict.value,
            )
        )
    right = range(1, len(names) - 1)
    return [*text_table(names, rows, width=width, right=right), "  * as the study asks"]


def _answers(plan: StudyPlan, *, details: bool) -> list[str]:
    requested = plan.requested
    lines: list[str] = []
    for need in plan.needs:
        lines += _need(plan, need)
    recommended = plan.recommended
    place = ", as in the study" if recommended == requested.mechanism else " instead"
    lines.append(f"Recommended: the {recommended} mechanism{place}: {plan.reason}")
    if len(plan.covariance) > 1:
        shown = ", ".join(f"{name} {noise:.2g}" for name, noise in plan.covariance.items())
        lines.append(f"Noise of an entry of the covariance, after least squares: {shown}")
    bits, better = plan.resolution_bits, plan.recommended_bits
    if better > bits or (better != bits and details):
        lines.append(
            f"Recommended: resolution_bits {better} instead of {bits}: "
            + ("finer: rounding would be noticeable" if better > bits else "as good")
        )
    return lines


def _verdict(plan: StudyPlan) -> list[str]:
    size = f"{len(plan.rows)} owners, {sum(plan.rows.values())} rows together, "
    size += f"{len(plan.assumption.eigenvalues)} coded columns"
    return [f"{_judge(plan)}.", f"Study {plan.study}: {size}"]


def _judge(plan: StudyPlan) -> str:
    requested, name = plan.requested, plan.study
    words = f"epsilon {decimal_text(requested.epsilon)} ({requested.mechanism})"
    best, forecast = plan.assumption.is_best_case, requested.forecast
    hope = "if the assumption holds"
    if best and forecast is not None:
        hope = (
            f"in the best case, with {forecast.above} of {len(plan.assumption.eigenvalues)} "
            "components above the noise; most tables have much less variance, and show fewer"
        )
    start = f"{'May work. ' if best else ''}Study {name}"
    if requested.verdict is Feasibility.WORKS:
        return f"{start} works at {words}, {hope}"
    if requested.verdict is Feasibility.IN_PART:
        return f"{start} works in part at {words}, {hope}: its smaller components are mostly noise"
    why = (
        "not even the first assumed component stands above the noise"
        if requested.forecast is not None and requested.forecast.above == 0
        else "most of what it would find is noise"
    )
    return f"THIS STUDY CANNOT WORK at {words}: {why}"


def _need(plan: StudyPlan, need: PlanNeed) -> list[str]:
    start, good = need.mechanism.capitalize(), f"captures {GOOD:g} of {plan.components} components"
    if need.epsilon is None or need.rows_per_owner is None or need.owners is None:
        return [f"{start}: no epsilon within reach {good}"]
    mean_rows = sum(plan.rows.values()) / len(plan.rows)
    lines = [f"{start}: epsilon {decimal_text(need.epsilon)} or more {good}"]
    if need.rows_per_owner > mean_rows:
        requested = decimal_text(plan.requested.epsilon)
        lines.append(
            f"  at epsilon {requested}, about {need.rows_per_owner} rows of each owner are needed, "
            f"or {need.owners} owners of {mean_rows:.0f} rows"
        )
    return lines


def _trusts(plan: StudyPlan, width: int | None) -> list[str]:
    """Kinds of trust and their noise; empty if only one kind is shown."""
    if len(plan.trusts) < 2:
        return []
    lines = [
        "Whom owners trust: the noise of the sum compared with one mechanism's, at this epsilon"
    ]
    rows: list[tuple[str, ...]] = []
    for place, each in enumerate(plan.trusts):
        words = f"{'*' if place == 0 else ' '} trust: {each.trust.value}"
        if each.colluders is not None:
            words += f", colluders: {each.colluders} (h = {each.honest})"
        forecast = each.forecast.forecast
        captured = "-" if forecast is None else f"{forecast.captured:.3f}"
        verdict = each.forecast.verdict.value
        rows.append((words, f"{each.factor:.2f} times", captured, verdict))
    names = ("", "noise", "captured", "verdict")
    lines += text_table(names, rows, width=width, right=(1, 2))
    lines += [
        f"  aggregate, if more collude: {each.if_more_collude.words}"
        for each in plan.trusts
        if each.if_more_collude is not None
    ]
    lines.append(
        "  aggregate: the curator sees one sum; the figure is computational, and holds as long as "
        "that many owners are honest"
    )
    return lines


def _choices(plan: StudyPlan, width: int | None) -> list[str]:
    """Table of the noise, then lines for the gains and costs of each choice."""
    n_rows = sum(plan.rows.values())
    kinds = ("product", "with a target", "column sum", "cell", "cell of a table")
    names = ("", *kinds, "product vs study")
    rows: list[tuple[str, ...]] = []
    for each in plan.choices:
        figures = (each.product, each.target_product, each.column_sum, each.cell, each.table_cell)
        rows.append((f"  {each.choice}", *map(_noise, figures), f"{each.factor:.2f} times"))
    lines = [
        f"What choices cost: the noise's standard deviation, in rows of {n_rows} (and as a share)",
        *text_table(names, rows, width=width, right=range(1, len(names) - 1)),
    ]
    for each in plan.choices[1:]:
        lines.append(f"  {each.choice}:")
        lines += [f"    gain: {words}" for words in each.gains]
        lines += [f"    cost: {words}" for words in each.costs]
    return lines


def _noise(noise: PooledNoise | None) -> str:
    return "-" if noise is None else f"{noise.rows:.4g} ({100 * noise.share:.2g} %)"


def _costs(plan: StudyPlan) -> list[str]:
    epsilon, delta = plan.requested.epsilon, plan.requested.delta
    per_owner = f"epsilon {decimal_text(epsilon)}"
    per_owner += f", delta {decimal_text(delta)}" if delta > Decimal(0) else ""
    lines = [
        f"Each owner: charged {per_owner}, once; sends {_size(plan.bytes_up)} and receives about "
        f"{_size(plan.bytes_down)}"
    ]
    seconds = plan.seconds
    if seconds is None:
        return lines
    return [
        *lines,
        f"Time on a machine like this: {_seconds(seconds.draw)} for an owner's noise, "
        f"{_seconds(seconds.transfer)} for its bytes at {seconds.megabits:g} Mbit/s, "
        f"{_seconds(seconds.decompose)} for the curator's decomposition",
    ]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= _MOMENT_S else f"less than {_MOMENT_S:g} s"


def _size(n_bytes: int) -> str:
    return f"{n_bytes} bytes" if n_bytes < 10_000 else f"{n_bytes / 1e6:.3g} MB"
