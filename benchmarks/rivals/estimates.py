"""Intervals for three questions: ours beside those of other software, and of rows taken as real.

The 45,222 complete rows of Adult are the population. Each release is of `ROWS` rows drawn from it
with replacement, the same rows for every contestant. The questions are the mean of the weekly
hours, the mean of men less that of women, and the linear regression of the hours on age, years of
education and sex, of which two coefficients count. An interval at 95 % should hold the
population's value in 95 of 100 releases; what one gives for its own rows should hold theirs.

- *DPPCA* asks its product's `dppca.estimates`: one release of seven attributes answers all of it,
  and any other question. With all fifteen attributes the noise is larger.
- *Rows as if real* are synthetic rows, as many as there are real ones, with the classical formulas:
  what a user does who is not told better. AIM gets cells of one year and of one hour.
- dp-statsmodels and diffprivlib fit a regression and OpenDP releases a mean: each has the whole
  epsilon for every fit, so a second answer costs as much again. diffprivlib gives no interval.
  OpenDP's accuracy is an interval for the mean of the rows, not of the population.

Bounds are those of `benchmarks.studies`, never of rows. Relations differ: dp-statsmodels and AIM
count a row added or removed, the others a row replaced; ours is measured for both
(`benchmarks.rivals.neighbours`).
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environments import GuestError, find_environment, open_guest
from benchmarks.experiment import Found
from benchmarks.performance.registry import GUEST
from benchmarks.releases import plain_attributes
from benchmarks.rivals import synthetic
from benchmarks.rivals.cells import Maker, RivalRun, cross_makers
from benchmarks.rivals.neighbours import Neighbours, make_study
from benchmarks.rivals.ours_guest import pool_rows
from benchmarks.studies import ROOT
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import row_columns
from dppca.common.analysis.estimates.face import estimates
from dppca.common.analysis.rows.synthesis import synthesize
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.schema import Numeric

Array = NDArray[np.float64]
BY = ("subject", "contestant", "neighbours", "epsilon")
SUBJECT = "adult"
ROWS = 15_000
EPSILONS = ("0.5", "1", "3")
COLUMNS = ("age", "education_num", "sex", "hours_per_week")
"""What the questions are about; sex counts 1 for men."""
ATTRIBUTES = ("age", "education_num", "marital_status", "race", "sex", "hours_per_week", "income")
QUESTIONS = ("mean", "difference", "age", "education")
SHOWN = {"mean": "mean", "difference": "men − women", "age": "age"}
"""Columns of the table; the page leaves slopes to `benchmarks.rivals.regressions`."""
SPREAD = 2 * 1.96 / 0.6745
"""Width of a normal law's 95 % interval, over its median absolute deviation."""
REPLACED, ADDED = str(Neighbours.REPLACED), str(Neighbours.ADDED)
NONE, OURS, PURE, OWN = "no privacy", "DPPCA", "DPPCA, δ = 0", "DPPCA, for these rows"
ALL, NAIVE, AIM = "DPPCA, 15 attributes", "DPPCA, rows as if real", "AIM, rows as if real"
OPENDP, DIFFPRIVLIB, DP_STATSMODELS = "OpenDP, δ = 0", "diffprivlib, δ = 0", "dp-statsmodels"
ON_PAGE = (NONE, OURS, PURE, OPENDP, NAIVE, AIM)
FOR_ROWS = (OWN, OPENDP)
"""Their intervals are for the rows, and not for the population."""
CHECKOUT = ROOT / "build/tools/dp-statsmodels"
"""Of commit ce4a47b, since no index has a package of it."""
_NUMBERS = ("numpy==2.4.6", "scipy==1.17.1", "pandas==2.3.3")
ENVIRONMENTS = {
    OPENDP: ("opendp-0.16.0-numpy", ("opendp==0.16.0", "numpy==2.4.6")),
    DIFFPRIVLIB: ("diffprivlib-0.6.6", ("diffprivlib==0.6.6", "scikit-learn<1.6")),
    DP_STATSMODELS: ("dp-statsmodels-needs", _NUMBERS),
}
_GUEST = Path(__file__).with_name("estimates_guest.py")
_PATIENCE_S = 1800.0


@dataclass(frozen=True, slots=True)
class IntervalMaker(Maker):
    """One line of the table."""

    releases: int = 40
    epsilons: tuple[str, ...] = EPSILONS


MAKERS = (
    IntervalMaker(NONE, "", epsilons=("",)),
    IntervalMaker(OURS, REPLACED),
    IntervalMaker(OURS, ADDED),
    IntervalMaker(PURE, REPLACED),
    IntervalMaker(OWN, REPLACED),
    IntervalMaker(ALL, REPLACED, epsilons=("1",)),
    IntervalMaker(OPENDP, REPLACED),
    IntervalMaker(DIFFPRIVLIB, REPLACED),
    IntervalMaker(DP_STATSMODELS, ADDED),
    IntervalMaker(NAIVE, ADDED),
    IntervalMaker(AIM, ADDED, 2, ("1",)),
)
"""Those that take the least time first."""


def list_cells(*, splits: int, only: str) -> Iterator[RivalRun]:
    """All cells of the table; each split has releases of its own."""
    yield from cross_makers(MAKERS, run_maker, SUBJECT, splits=splits, only=only)


def run_maker(who: IntervalMaker, epsilon: str, seeds: Sequence[tuple[int, int]]) -> Found:
    """Intervals of one maker, a release for each seed, and how they did.

    Raises
    ------
    GuestError
        There are none, and why.
    """
    places = [draw_places(seed) for seed in seeds]
    tables = [question_columns()[each] for each in places]
    if who.name in ENVIRONMENTS:
        found, seconds = _guest_intervals(who.name, np.array(tables), epsilon, seeds[0])
    else:
        found, seconds = np.empty((len(seeds), len(QUESTIONS), 3)), 0.0
        make: Callable[..., tuple[Array, float]] = _aim_interval if who.name == AIM else _interval
        for number, (seed, rows) in enumerate(zip(seeds, places, strict=True)):
            found[number], spent = make(who, epsilon, rows, seed)
            seconds += spent
    own = np.array([classical_intervals(each)[:, 0] for each in tables])
    truth = classical_intervals(question_columns())[:, 0]
    return {**judge_intervals(found, truth, own), "seconds": seconds / len(seeds)}


def judge_intervals(found: Array, truth: Array, own: Array) -> Found:
    """How intervals did, by question.

    Parameters
    ----------
    found
        Estimate and both ends, shape (releases, questions, 3); nan where there is none.
    truth, own
        Values of the population, shape (questions,), and of the rows, (releases, questions).

    Returns
    -------
    Found
        ``given``, the share of releases with an interval; of these ``covers`` and ``covers_rows``,
        the shares that hold the population's and the rows' value, and ``width``, the median;
        ``needed``, `SPREAD` times the median distance of an estimate from the population's value.
    """
    figures: Found = {"given": {}, "covers": {}, "covers_rows": {}, "width": {}, "needed": {}}
    for place, name in enumerate(QUESTIONS):
        estimate, low, high = found[:, place].T
        given, made = ~np.isnan(low), ~np.isnan(estimate)
        figures["given"][name] = float(given.mean())
        if made.any():
            missed = np.abs(estimate[made] - truth[place])
            figures["needed"][name] = float(SPREAD * np.median(missed))
        if given.any():
            low, high = low[given], high[given]
            for key, value in (("covers", truth[place]), ("covers_rows", own[given, place])):
                figures[key][name] = float(((low <= value) & (value <= high)).mean())
            figures["width"][name] = float(np.median(high - low))
    return figures


def classical_intervals(rows: Array) -> Array:
    """Estimates and 95 % intervals as if rows were real, shape (questions, 3).

    Normal, Welch's and of least squares with constant variance.

    Parameters
    ----------
    rows
        Shape (n, columns), in the order of `COLUMNS`.
    """
    hours, male = rows[:, 3], rows[:, 2] > 0
    X = np.column_stack([np.ones(len(rows)), rows[:, :3]])
    inverse = np.linalg.inv(X.T @ X)
    slopes = inverse @ (X.T @ hours)
    residual = hours - X @ slopes
    variances = inverse.diagonal() * (residual @ residual) / (len(rows) - X.shape[1])
    groups = hours[male], hours[~male]
    estimate = [hours.mean(), groups[0].mean() - groups[1].mean(), slopes[1], slopes[2]]
    within = [each.var(ddof=1) / len(each) for each in groups]
    squared = [hours.var(ddof=1) / len(hours), sum(within), variances[1], variances[2]]
    half = 1.959964 * np.sqrt(squared)
    return np.column_stack([estimate, estimate - half, estimate + half])


@lru_cache(1)
def question_columns() -> Array:
    """The population, shape (n, columns)."""
    subject = load_subject(SUBJECT)
    names = [each.name for each in subject.schema.attributes]
    return np.column_stack([subject.columns[names.index(name)] for name in COLUMNS]).astype(float)


def draw_places(seed: Sequence[int]) -> NDArray[np.int64]:
    """Rows of a release, drawn with replacement."""
    population = len(question_columns())
    return np.random.default_rng([*seed, 0]).integers(population, size=ROWS)


def _table(names: Sequence[str]) -> tuple[list[dict[str, Any]], Array]:
    """Attributes as a study file has them, and the population's values, a column for each."""
    subject = load_subject(SUBJECT)
    kept = [each.name in names for each in subject.schema.attributes]
    attributes = [a for a, keep in zip(plain_attributes(subject.schema), kept, strict=True) if keep]
    columns = [column for column, keep in zip(subject.columns, kept, strict=True) if keep]
    return attributes, np.column_stack(columns)


def _interval(
    who: IntervalMaker, epsilon: str, places: NDArray[np.int64], seed: tuple[int, int]
) -> tuple[Array, float]:
    """One release's intervals, and processor seconds."""
    if not who.neighbours:
        begin = process_time()
        return classical_intervals(question_columns()[places]), process_time() - begin
    whole = load_subject(SUBJECT).schema.attributes
    names = [each.name for each in whole] if who.name == ALL else ATTRIBUTES
    attributes, values = _table(names)
    rows = values[places]
    begin = process_time()
    study = make_study(
        {"attributes": attributes},
        epsilon=epsilon,
        delta="" if who.name == PURE else synthetic.DELTA,
        owners=1,
        neighbours=Neighbours(who.neighbours),
    )
    result = pool_rows(study, rows, 1000 * seed[0] + seed[1])
    if who.name == NAIVE:
        rng = np.random.default_rng([*seed, 1])
        made = synthesize(result, study, Form.DECODED, n_rows=len(rows), rng=rng)
        columns = dict(zip(names, row_columns(made, study.table), strict=True))
        found = classical_intervals(np.column_stack([columns[name] for name in COLUMNS]))
        return found, process_time() - begin
    asked = estimates(Published(study, result), these_rows=who.name == OWN)
    fit = asked.ols("hours_per_week", ["age", "education_num", "sex=Male"])
    slopes = {each.name: each for each in fit.estimates}
    answers = [
        asked.mean("hours_per_week").estimates[0],
        asked.difference("hours_per_week", "sex").estimates[0],
        *(slopes[name] for name in COLUMNS[:2]),
    ]
    none = (np.nan, np.nan)
    given = [
        (np.nan if each.estimate is None else each.estimate, *(each.conf_int() or none))
        for each in answers
    ]
    return np.array(given), process_time() - begin


def _guest_intervals(
    name: str, tables: Array, epsilon: str, seed: tuple[int, int]
) -> tuple[Array, float]:
    """Another library's intervals of all releases, and processor seconds."""
    if name == DP_STATSMODELS and not CHECKOUT.is_dir():
        raise GuestError(f"no checkout of dp-statsmodels at {CHECKOUT.relative_to(ROOT)}")
    environment, needs = ENVIRONMENTS[name]
    python = find_environment(environment, needs)
    numeric = {
        each.name: each.bounds
        for each in load_subject(SUBJECT).schema.attributes
        if isinstance(each, Numeric)
    }
    lower, upper = zip(*(numeric.get(column, (0, 1)) for column in COLUMNS), strict=True)
    with tempfile.TemporaryDirectory(prefix="dppca-rivals-") as scratch:
        given, saved = Path(scratch) / "tables.npz", Path(scratch) / "found.npy"
        np.savez(given, tables=tables, lower=lower, upper=upper)
        arguments = (name, str(given), epsilon, synthetic.DELTA, str(seed[0]), str(CHECKOUT))
        with open_guest(python, _GUEST, *arguments, threads=1) as ask:
            seconds = ask("fit", _PATIENCE_S)
            ask(f"save {saved}")
        return np.load(saved), seconds


def _aim_interval(
    _who: IntervalMaker, epsilon: str, places: NDArray[np.int64], seed: tuple[int, int]
) -> tuple[Array, float]:
    """Classical intervals of AIM's rows."""
    attributes, values = _table(ATTRIBUTES)
    lower = np.array([each.get("lower", 0) for each in attributes])
    sizes = [
        each["upper"] - each["lower"] + 1
        if "lower" in each
        else len(each.get("values") or each["categories"])
        for each in attributes
    ]
    environment, installs = synthetic.ENVIRONMENTS[synthetic.PGM]
    python = find_environment(environment, *installs)
    with tempfile.TemporaryDirectory(prefix="dppca-rivals-") as scratch:
        given, saved = Path(scratch) / "table.npz", Path(scratch) / "rows.npy"
        codes = (values[places] - lower).astype(np.int64)
        np.savez(given, codes=codes, sizes=np.array(sizes, np.int64))
        number = str(1000 * seed[0] + seed[1])
        arguments = (synthetic.AIM, str(given), str(ROWS), epsilon, synthetic.DELTA, number)
        with open_guest(python, GUEST, *arguments, threads=1) as ask:
            seconds = sum(ask(word, _PATIENCE_S) for word in ("fit", "rows"))
            ask(f"save {saved}")
        rows = np.load(saved) + lower
    names = [each["name"] for each in attributes]
    return classical_intervals(rows[:, [names.index(name) for name in COLUMNS]]), seconds
