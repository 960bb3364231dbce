"""Plan as text; its JSON document contains every figure of the text.

There are three texts: the short one, the one with what other choices of the schema cost, and all
details. `plan_text` has the one list of what they are made of.
"""

from decimal import Decimal
from textwrap import TextWrapper

from dppca.common.analysis.estimates.reasons import describe_ruled_out
from dppca.common.analysis.estimators.relations import relations_lines
from dppca.common.analysis.forecast import UtilityForecast
from dppca.common.analysis.table_forecast import JUDGED, TableForecast
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.tables import text_table
from dppca.curator.planning.choices import PooledNoise
from dppca.curator.planning.covariance_noise import CLEARLY
from dppca.curator.planning.forecaster import GOOD, Feasibility, PlanNeed
from dppca.curator.planning.plan import StudyPlan
from dppca.curator.planning.proposals import Course

_SHOWN = 8  # eigenvalues
_MOMENT_S = 0.1  # shorter times are not noticed
_RARE = 0.001  # a rarer refusal is not worth a line
SHORT_WIDTH = 80  # characters of a line of the short text


def plan_text(
    plan: StudyPlan, *, width: int | None = None, details: bool = True, choices: bool = True
) -> str:
    """Return the plan as text, the verdict first.

    ``width`` is the terminal's. Without ``details`` lines are folded, and the assumption and the
    wide table of forecasts are left out; without ``choices`` what other choices of the schema cost.
    """
    parts = (
        _verdict(plan),
        _assumption(plan) if details else (),
        _plain(plan),
        _table(plan, width) if details else (),
        _questions(plan),
        _widths(plan, width),
        _answers(plan, details=details),
        [describe_ruled_out(each) for each in plan.ruled_out],
        _trusts(plan, width),
        _promises(plan, details=details),
        relations_lines(plan.relations),
        _numbers(plan),
        _rounds(plan),
        _choices(plan, width) if details or choices else (),
        _costs(plan),
        () if details else ["All figures, and what other choices cost: --details"],
    )
    text = "\n\n".join("\n".join(part) for part in parts if part)
    return text if details else _fold(text)


def _fold(text: str) -> str:
    """Break lines after 80 characters; those that continue one are indented below it."""
    lines = list[str]()
    for line in text.split("\n"):
        below = " " * (len(line) - len(line.lstrip()) + 2)
        folded = TextWrapper(
            SHORT_WIDTH, subsequent_indent=below, break_on_hyphens=False, break_long_words=False
        )
        lines += [line] if len(line) <= SHORT_WIDTH else folded.wrap(line)
    return "\n".join(lines)


def _verdict(plan: StudyPlan) -> list[str]:
    size = f"{many(len(plan.rows), 'owners')}, {many(sum(plan.rows.values()), 'rows')} together, "
    size += many(len(plan.assumption.eigenvalues), "coded columns")
    return [f"{_judge(plan)}.", f"Study {plan.study}: {size}"]


def _judge(plan: StudyPlan) -> str:
    requested, best = plan.requested, plan.assumption.is_best_case
    words, forecast = f"epsilon {_in_study(plan)}", requested.forecast
    hope = "if the assumption holds"
    if best and forecast is not None:
        hope = (
            f"in the best case, with {forecast.above} of {len(plan.assumption.eigenvalues)} "
            "components above the noise; most tables have much less variance, and show fewer"
        )
    start = f"{'May work. ' if best else ''}Study {plan.study}"
    if requested.verdict is Feasibility.WORKS:
        return f"{start} works at {words}, {hope}"
    if requested.verdict is Feasibility.IN_PART:
        return f"{start} works in part at {words}, {hope}: its smaller components are mostly noise"
    why = "most of what it would find is noise"
    if forecast is not None and forecast.above == 0:
        why = "not even the first assumed component stands above the noise"
    return f"THIS STUDY CANNOT WORK at {words}: {why}"


def _assumption(plan: StudyPlan) -> list[str]:
    assumed = plan.assumption
    values = "  ".join(f"{value:.3g}" for value in assumed.eigenvalues[:_SHOWN])
    return [
        f"Assumed, not measured: {assumed.source}",
        f"  {values}{'  ...' if len(assumed.eigenvalues) > _SHOWN else ''}",
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
    return [
        f"In plain numbers, at epsilon {_in_study(plan)}:",
        f"  {forecast.above} of {many(len(plan.assumption.eigenvalues), 'components')} would stand "
        f"above the noise; {forecast.count} would be kept",
        f"  these would hold {_spread(forecast)} of the variance that the best {forecast.count} "
        f"could hold; random directions, {_percent(forecast.chance)} %",
        *([_BEST_CASE] if plan.assumption.is_best_case else []),
        *([] if requested.tables is None else [_rows(requested.tables)]),
    ]


def _rows(tables: TableForecast) -> str:
    order = "noise covers which form of the study would be better"
    if (limit := tables.better_below) is not None:
        order = f"other forms of the study are about as good, unless theirs is below {limit:.2g}"
    return (
        f"Rows: as many synthetic rows would have two-way tables off by {tables.low:.2g} to "
        f"{tables.high:.2g} in nine of ten studies, most likely by {tables.likely:.2g} (total "
        f"variation, mean over all pairs, numbers in {JUDGED} cells); {order}"
    )


_FIGURES = {
    "noise edge": "{0.noise_edge:.3g}",
    "above": "{0.above}",
    "kept": "{0.count}",
    "captured": "{0.captured:.3f}",
    "9 runs of 10": "{0.captured_low:.3f} to {0.captured_high:.3f}",
    "by chance": "{0.chance:.3f}",
    "angle": "{0.angle:.0f}°",
}


def _table(plan: StudyPlan, width: int | None) -> list[str]:
    why = "" if plan.trusts[0].honest is None else ", or its noise is too small for shares"
    rows: list[tuple[str, ...]] = []
    for line in plan.forecasts:
        start = f"{'*' if line.asked else ' '} {line.mechanism}", decimal_text(line.epsilon)
        end, forecast = line.verdict.value, line.forecast
        if forecast is None:
            end += f": its integers could leave their range{why}"
        figures = ("" if forecast is None else each.format(forecast) for each in _FIGURES.values())
        rows.append((*start, *figures, end))
    names, right = ("  mechanism", "epsilon", *_FIGURES, "verdict"), range(1, len(_FIGURES) + 2)
    return [*text_table(names, rows, width=width, right=right), "  * as the study asks"]


def _widths(plan: StudyPlan, width: int | None) -> list[str]:
    """How wide intervals will be under the study's law: a column for each epsilon."""
    requested, forecasts = plan.requested, plan.forecasts
    lines = [line for line in forecasts if line.mechanism == requested.mechanism and line.widths]
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


def _questions(plan: StudyPlan) -> list[str]:
    if not plan.questions:
        return []
    return [
        "The study's questions, with 95 % for all of their intervals together, if values are "
        "spread evenly:",
        *(f"  {each.line}" for each in plan.questions),
    ]


def _answers(plan: StudyPlan, *, details: bool) -> list[str]:
    lines = [line for need in plan.needs for line in _need(plan, need)]
    place = ", as in the study" if plan.recommended == plan.requested.mechanism else " instead"
    lines.append(f"Recommended: the {plan.recommended} mechanism{place}: {plan.reason}")
    if len(plan.covariance) > 1:
        shown = ", ".join(f"{name} {noise:.2g}" for name, noise in plan.covariance.items())
        lines.append(f"Noise of an entry of the covariance, after least squares: {shown}")
    lines += _count_weight(plan, details=details)
    bits, better = plan.resolution_bits, plan.recommended_bits
    if better > bits or (better != bits and details):
        why = "finer: rounding would be noticeable" if better > bits else "as good"
        lines.append(f"Recommended: resolution_bits {better} instead of {bits}: {why}")
    return lines


def _count_weight(plan: StudyPlan, *, details: bool) -> list[str]:
    """Another weight of a noised number, if it clearly has less noise or fewer refusals."""
    if (found := plan.count_weight) is None:
        return []
    now = plan.promises[0].refusal or 0.0
    fewer = now >= _RARE and found.refusal < CLEARLY * now
    if not (details or fewer or found.edge <= CLEARLY):
        return []
    ends = f"; {_percent(found.refusal)} % of such studies end without a result" if fewer else ""
    return [
        f"Recommended: count_weight {found.weight:g} (the study's is {found.written:g}): "
        f"{found.edge:.2f} times the noise edge, if half of all squares are variance{ends}"
    ]


def _need(plan: StudyPlan, need: PlanNeed) -> list[str]:
    start = need.mechanism.capitalize()
    good = f"captures {GOOD:g} of {many(plan.components, 'components')}"
    if need.epsilon is None or need.rows_per_owner is None or need.owners is None:
        return [f"{start}: no epsilon within reach {good}"]
    mean_rows = sum(plan.rows.values()) / len(plan.rows)
    lines = [f"{start}: epsilon {decimal_text(need.epsilon)} or more {good}"]
    if need.rows_per_owner > mean_rows:
        lines.append(
            f"  at epsilon {decimal_text(plan.requested.epsilon)}, about {need.rows_per_owner} "
            f"rows of each owner are needed, or {need.owners} owners of {mean_rows:.0f} rows"
        )
    return lines


def _trusts(plan: StudyPlan, width: int | None) -> list[str]:
    """Kinds of trust and their noise; empty if only one kind is shown."""
    trusts = plan.trusts
    if len(trusts) < 2:
        return []
    rows: list[tuple[str, ...]] = []
    for place, each in enumerate(trusts):
        words = f"{' ' if place else '*'} trust: {each.trust.value}"
        if each.colluders is not None:
            words += f", colluders: {each.colluders} (h = {each.honest})"
        forecast = each.forecast.forecast
        captured = "-" if forecast is None else f"{forecast.captured:.3f}"
        rows.append((words, f"{each.factor:.2f} times", captured, each.forecast.verdict.value))
    left = [each.if_more_collude.words for each in trusts if each.if_more_collude is not None]
    return [
        "Whom owners trust: the noise of the sum compared with one mechanism's, at this epsilon",
        *text_table(("", "noise", "captured", "verdict"), rows, width=width, right=(1, 2)),
        *(f"  aggregate, if more collude: {words}" for words in left),
        "  aggregate: the curator sees one sum; the figure is computational, and holds as long as "
        "that many owners are honest",
    ]


def _promises(plan: StudyPlan, *, details: bool) -> list[str]:
    """Both relations, in details; else what becomes of a number of rows that is secret."""
    lines = []
    for each in plan.promises:
        if not (details or (each.count is not None and each.asked)):
            continue
        told = f"the number of {'rows' if each.rows_counted is None else 'people'} is public"
        if each.count is not None and each.refusal is not None:
            told = f"the number of rows is secret, its noise {each.count.rows:.3g} rows"
            if each.count_weight != 1:
                told += f" at count_weight {each.count_weight:g}"
            if each.refusal >= _RARE:
                told += (
                    f"; in {_percent(each.refusal)} % of such studies it is below five times that, "
                    "and the study ends without a result: nothing that was charged comes back"
                )
        noise = f"a product's noise is {each.product.rows:.3g} rows"
        words = f"{each.neighbours.value}{' (asked)' if each.asked else ''}"
        c = each.rows_counted
        unit = "" if c is None else f"unit: person, rows_counted: {c}, "
        lines.append(f"  {unit}neighbours: {words}: {noise}; {told}")
    if len(lines) > 1:
        lines.append("  the same epsilon promises other things under each: choose by these")
    if any(each.rows_counted is not None for each in plan.promises) and lines:
        lines.append(
            "  rows_counted: all rows of a person weigh as so many at most. Fewer mean less noise, "
            "and answers about people; more are nearer to answers about rows"
        )
    return ["What the promise compares:", *lines] if lines else []


def _numbers(plan: StudyPlan) -> list[str]:
    if (numbers := plan.numbers) is None:
        return []
    kept = " (as the study has them)" if numbers.as_written else ""
    start = f"Numbers, by a noise of {numbers.noise:.3g} of {numbers.rows} rows{kept}"
    return [f"{start}: {numbers.words}"]


_GAINS = {
    Course.ROUNDS: "Random trees in one study would cost more than they show",
    Course.BOTH: "Random trees in one study give a quarter to two thirds of the gain",
}


def _rounds(plan: StudyPlan) -> list[str]:
    if (rounds := plan.rounds) is None:
        return []
    size, whole = rounds.size, decimal_text(plan.requested.epsilon)
    start = "In two studies (study refine)"
    counted = (
        f"{many(size.trees, 'trees')} of {size.leaves} leaves: {size.rows_per_leaf:.0f} rows in a "
        f"leaf, a count's noise {size.noise:.0f}"
    )
    if not size.is_clear:
        return [f"{start} epsilon {whole} is too little: {counted} would hide the counts"]
    return [
        f"{start}: epsilon {rounds.epsilon:.4g} each, {whole} together. The second counts rows in "
        f"{counted}",
        "  it pays where three attributes or more decide together; for curves of numbers, bins are "
        f"as good at epsilon 1. {_GAINS[plan.course]}",
    ]


def _choices(plan: StudyPlan, width: int | None) -> list[str]:
    """Table of the noise, then lines for the gains and costs of each choice."""
    choices = plan.choices
    kinds = ("product", "with a target", "column sum", "cell", "cell of a table")
    rows: list[tuple[str, ...]] = []
    for each in choices:
        figures = (each.product, each.target_product, each.column_sum, each.cell, each.table_cell)
        rows.append((f"  {each.choice}", *map(_noise, figures), f"{each.factor:.2f} times"))
    lines = [
        "What choices cost: the noise's standard deviation, in rows of "
        f"{sum(plan.rows.values())} (and as a share)",
        *text_table(
            ("", *kinds, "product vs study"),
            rows,
            width=width,
            right=range(1, 1 + len(kinds)),
        ),
    ]
    for each in choices[1:]:
        lines.append(f"  {each.choice}:")
        lines += [f"    gain: {words}" for words in each.gains]
        lines += [f"    cost: {words}" for words in each.costs]
    return lines


def _costs(plan: StudyPlan) -> list[str]:
    seconds, delta = plan.seconds, plan.requested.delta
    charged = f"epsilon {decimal_text(plan.requested.epsilon)}"
    charged += f", delta {decimal_text(delta)}" if delta > Decimal(0) else ""
    lines = [
        f"Each owner: charged {charged}, once; sends {_size(plan.bytes_up)} and receives about "
        f"{_size(plan.bytes_down)}"
    ]
    if seconds is not None:
        lines.append(
            f"Time on a machine like this: {_seconds(seconds.draw)} for an owner's noise, "
            f"{_seconds(seconds.transfer)} for its bytes at {seconds.megabits:g} Mbit/s, "
            f"{_seconds(seconds.decompose)} for the curator's decomposition"
        )
    return lines


def _in_study(plan: StudyPlan) -> str:
    return f"{decimal_text(plan.requested.epsilon)} ({plan.requested.mechanism})"


def _spread(forecast: UtilityForecast) -> str:
    """Captured share, and the range of nine runs of ten if it differs."""
    least, most = _percent(forecast.captured_low), _percent(forecast.captured_high)
    found = _percent(forecast.captured)
    if least == found == most:
        return f"{found} %"
    return f"{found} % ({least} to {most} in nine runs of ten)"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _noise(noise: PooledNoise | None) -> str:
    return "-" if noise is None else f"{noise.rows:.4g} ({100 * noise.share:.2g} %)"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= _MOMENT_S else f"less than {_MOMENT_S:g} s"


def _size(n_bytes: int) -> str:
    return f"{n_bytes} bytes" if n_bytes < 10_000 else f"{n_bytes / 1e6:.3g} MB"
