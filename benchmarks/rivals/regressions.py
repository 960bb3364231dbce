"""Six regressions of one study: ours from one release, beside libraries that pay for each fit.

Rows are drawn from Adult as in `benchmarks.rivals.estimates`: 15,000 for each release, the same for
every contestant. Asked are three linear and three logistic regressions of seven attributes, three
slopes each. All of epsilon is for all six: ours is one release of moments and of one table (sex by
cells of age and education); a library has a sixth of epsilon and of delta for each fit. Slopes are
in standard deviations of the population: of the regressor, and of the outcome of a linear one.

- diffprivlib and dp-statsmodels come as there, with their defaults.
- DPrivStats is an R package that no index for Python has: install it by hand where ``Rscript``
  finds it (``R_LIBS``); its cells say so where it is absent. Its linear fit takes regressors for
  public unless told otherwise: it is told, with the norm of a row that public bounds give. By its
  own documentation the factor for that, and the composition of its logistic fit, are heuristics.

Libraries get columns that public bounds bring into [-1, 1], since some have one pair of bounds, or
one norm, for all. Relations differ as there: dp-statsmodels counts a row added or removed.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.environments import GuestError, PatienceError, find_environment, open_guest
from benchmarks.experiment import Found
from benchmarks.regressions import fit_rows
from benchmarks.releases import label_attribute, numeric_attribute
from benchmarks.rivals import synthetic
from benchmarks.rivals.cells import Maker, RivalRun, cross_makers
from benchmarks.rivals.estimates import (
    CHECKOUT,
    DIFFPRIVLIB,
    DP_STATSMODELS,
    ENVIRONMENTS,
    NONE,
    OURS,
    PURE,
    SUBJECT,
    draw_places,
)
from benchmarks.rivals.neighbours import Neighbours, make_study
from benchmarks.rivals.ours_guest import pool_rows
from benchmarks.studies import ADULT_NUMERIC, ROOT
from benchmarks.synthesis.subjects import load_subject
from dppca.common.analysis.estimates.face import estimates
from dppca.common.kernel.attestation.results import Published

Array = NDArray[np.float64]
BY = ("subject", "contestant", "neighbours", "epsilon")
EPSILONS = ("1", "3", "10")
REPLACED, ADDED = str(Neighbours.REPLACED), str(Neighbours.ADDED)
DPRIVSTATS = "DPrivStats"
KINDS = ("linear", "logistic")
CELLS = {"age": 10, "education_num": 8}
COLUMNS = {
    **dict.fromkeys(("age", "education_num"), None),
    "sex": 1,
    "hours_per_week": None,
    "income": 1,
    "marital_status": 0,
    "race": 0,
}
"""Attributes of Adult, and the code of what counts 1: men, > 50K, married, white."""
_NAMES = tuple(COLUMNS)
_Z = 1.959964
_GUEST = Path(__file__).with_name("regressions_guest.py")
_R_GUEST = _GUEST.with_suffix(".R")
_PATIENCE_S = 3600.0


@dataclass(frozen=True, slots=True)
class SlopeModel:
    """One regression of the study, of three regressors."""

    kind: str
    outcome: str
    regressors: tuple[str, str, str]

    @property
    def places(self) -> tuple[int, list[int]]:
        """Of the outcome and of the regressors in `COLUMNS`."""
        return _NAMES.index(self.outcome), [_NAMES.index(each) for each in self.regressors]


_PEOPLE = ("age", "education_num", "sex")
MODELS = (
    SlopeModel("linear", "hours_per_week", _PEOPLE),
    SlopeModel("linear", "hours_per_week", ("age", "sex", "marital_status")),
    SlopeModel("linear", "education_num", ("age", "sex", "income")),
    *(SlopeModel("logistic", each, _PEOPLE) for each in ("income", "marital_status", "race")),
)


@dataclass(frozen=True, slots=True)
class SlopeMaker(Maker):
    """One line of the table."""

    releases: int = 20
    epsilons: tuple[str, ...] = EPSILONS


MAKERS = (
    SlopeMaker(NONE, "", epsilons=("",)),
    SlopeMaker(OURS, REPLACED),
    SlopeMaker(OURS, ADDED),
    SlopeMaker(PURE, REPLACED),
    SlopeMaker(DIFFPRIVLIB, REPLACED),
    SlopeMaker(DPRIVSTATS, REPLACED),
    SlopeMaker(DP_STATSMODELS, ADDED, 7),
)


def list_cells(*, splits: int, only: str) -> Iterator[RivalRun]:
    """All cells of the table; each split has releases of its own."""
    yield from cross_makers(MAKERS, run_maker, SUBJECT, splits=splits, only=only)


def run_maker(who: SlopeMaker, epsilon: str, seeds: Sequence[tuple[int, int]]) -> Found:
    """Slopes of one maker, a release for each seed, and how they did.

    Raises
    ------
    GuestError
        There are none, and why.
    """
    whole = _population()
    tables = [whole[draw_places(seed)] for seed in seeds]
    own = np.array([fit_slopes(each) for each in tables])
    if who.name in (OURS, PURE):
        begin = process_time()
        found = np.array(
            [_our_slopes(who, epsilon, *each) for each in zip(tables, seeds, strict=True)]
        )
        seconds = process_time() - begin
    elif who.name == NONE:
        begin = process_time()
        found = np.array([fit_slopes(each) for each in tables])
        seconds = process_time() - begin
    else:
        scaled, seconds = _guest_slopes(who.name, np.array(tables), epsilon, seeds[0])
        found = scaled / _units(0.5 * np.subtract(*_bounds()[::-1]))[..., None]
    units = _units(whole.std(axis=0))[..., None]
    judged = judge_slopes(found * units, fit_slopes(whole)[..., 0] * units[..., 0], own * units)
    return {**judged, "seconds": seconds / len(seeds)}


def judge_slopes(found: Array, truth: Array, own: Array) -> Found:
    """How slopes did, linear and logistic ones apart.

    Parameters
    ----------
    found, own
        Estimates and both ends, shape (releases, models, slopes, 3); nan where there is none.
    truth
        Values of the population, shape (models, slopes).

    Returns
    -------
    Found
        ``error``, the median over releases of the root mean square distance from the rows' own
        slopes; ``made`` and ``given``, the shares of slopes with an estimate and with an interval,
        a half-line included; of these ``covers``, the share that holds the population's value;
        ``width``, the median of those with both ends.
    """
    names = ("error", "made", "given", "covers", "width")
    figures: Found = {name: {} for name in names}
    for kind in KINDS:
        place = [number for number, model in enumerate(MODELS) if model.kind == kind]
        estimate, low, high = np.moveaxis(found[:, place], -1, 0)
        given = ~np.isnan(low)
        figures["made"][kind] = float((~np.isnan(estimate)).mean())
        figures["given"][kind] = float(given.mean())
        squared = (estimate - own[:, place][..., 0]) ** 2
        figures["error"][kind] = float(np.median(np.sqrt(np.nanmean(squared, axis=(1, 2)))))
        if given.any():
            held = (low <= truth[place]) & (truth[place] <= high)
            figures["covers"][kind] = float(held[given].mean())
            widths = (high - low)[np.isfinite(high - low)]
            figures["width"][kind] = float(np.median(widths))
    return figures


def fit_slopes(rows: Array) -> Array:
    """Slopes of the rows' own fits with 95 % intervals, shape (models, 3, 3).

    Of least squares with constant variance, and of maximum likelihood.

    Parameters
    ----------
    rows
        Shape (n, columns), in the order of `COLUMNS`.
    """
    found = []
    for model in MODELS:
        outcome, regressors = model.places
        X = np.column_stack([np.ones(len(rows)), rows[:, regressors]])
        y = rows[:, outcome]
        if model.kind == "logistic":
            slopes, errors = fit_rows(X, y)
        else:
            inverse = np.linalg.inv(X.T @ X)
            slopes = inverse @ (X.T @ y)
            residual = y - X @ slopes
            errors = np.sqrt(inverse.diagonal() * (residual @ residual) / (len(y) - X.shape[1]))
        found.append(np.column_stack([slopes, slopes - _Z * errors, slopes + _Z * errors])[1:])
    return np.array(found)


@lru_cache(1)
def _population() -> Array:
    """Rows of Adult, shape (n, columns)."""
    subject = load_subject(SUBJECT)
    names = [each.name for each in subject.schema.attributes]
    columns = [
        subject.columns[names.index(name)]
        if one is None
        else subject.columns[names.index(name)] == one
        for name, one in COLUMNS.items()
    ]
    return np.column_stack(columns).astype(float)


def _bounds() -> tuple[Array, Array]:
    """Public bounds of the columns, each of shape (columns,)."""
    lower, upper = zip(*(ADULT_NUMERIC.get(name, (0, 1)) for name in COLUMNS), strict=True)
    return np.array(lower, float), np.array(upper, float)


def _units(scale: Array) -> Array:
    """What slopes are multiplied by if columns are divided by a scale, shape (models, 3)."""
    units = []
    for model in MODELS:
        outcome, regressors = model.places
        units.append(scale[regressors] / (scale[outcome] if model.kind == "linear" else 1.0))
    return np.array(units)


def _our_slopes(who: SlopeMaker, epsilon: str, rows: Array, seed: tuple[int, int]) -> Array:
    """All slopes of one release, shape (models, 3, 3)."""
    attributes = [
        numeric_attribute(name, *ADULT_NUMERIC[name])
        if one is None
        else label_attribute(name, ["no", "yes"])
        for name, one in COLUMNS.items()
    ]
    for each in attributes:
        if each["name"] in CELLS:
            each |= {"histogram": True, "integer": True}
    study = make_study(
        {"attributes": attributes, "tables": [{"table": list(_PEOPLE), "cells": CELLS}]},
        epsilon=epsilon,
        delta="" if who.name == PURE else synthetic.DELTA,
        owners=1,
        neighbours=Neighbours(who.neighbours),
    )
    asked = estimates(Published(study, pool_rows(study, rows, 1000 * seed[0] + seed[1])))
    found = []
    for model in MODELS:
        names = [each if COLUMNS[each] is None else f"{each}=yes" for each in model.regressors]
        answer = (
            asked.ols(model.outcome, names)
            if model.kind == "linear"
            else asked.logit(f"{model.outcome}=yes", names, log=True)
        )
        slopes = np.column_stack([answer.params, answer.conf_int()])
        found.append([slopes[answer.names.index(name)] for name in names])
    return np.array(found)


def _guest_slopes(
    name: str, tables: Array, epsilon: str, seed: tuple[int, int]
) -> tuple[Array, float]:
    """Another library's slopes of columns in [-1, 1], and processor seconds of all releases."""
    lower, upper = _bounds()
    tables = 2 * (tables - lower) / (upper - lower) - 1
    with tempfile.TemporaryDirectory(prefix="dppca-rivals-") as scratch:
        folder = Path(scratch)
        if name == DPRIVSTATS:
            return _r_slopes(folder, tables, epsilon, seed[0])
        if name == DP_STATSMODELS and not CHECKOUT.is_dir():
            raise GuestError(f"no checkout of dp-statsmodels at {CHECKOUT.relative_to(ROOT)}")
        environment, needs = ENVIRONMENTS[name]
        python = find_environment(environment, needs)
        given, saved = folder / "tables.npz", folder / "found.npy"
        outcomes, regressors = zip(*(each.places for each in MODELS), strict=True)
        logistic = [each.kind == "logistic" for each in MODELS]
        np.savez(given, tables=tables, outcomes=outcomes, regressors=regressors, logistic=logistic)
        arguments = (name, str(given), epsilon, synthetic.DELTA, str(seed[0]), str(CHECKOUT))
        with open_guest(python, _GUEST, *arguments, threads=1) as ask:
            seconds = ask("fit", _PATIENCE_S)
            ask(f"save {saved}")
        return np.load(saved), seconds


def _r_slopes(folder: Path, tables: Array, epsilon: str, seed: int) -> tuple[Array, float]:
    """Slopes of DPrivStats, which an R that has it runs; and processor seconds."""
    program = shutil.which("Rscript")
    if program is None:
        raise GuestError("no Rscript here")
    tables.transpose(0, 2, 1).tofile(folder / "tables.bin")  # R has columns first
    models = ";".join(
        f"{model.kind}:{outcome + 1}:{','.join(str(each + 1) for each in regressors)}"
        for model, (outcome, regressors) in ((each, each.places) for each in MODELS)
    )
    releases, rows, columns = tables.shape
    given = (releases, rows, columns, models, epsilon, synthetic.DELTA, seed)
    call = [program, "--no-save", str(_R_GUEST), str(folder), *map(str, given)]
    try:
        done = subprocess.run(
            call, check=False, capture_output=True, text=True, timeout=_PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        raise PatienceError(_PATIENCE_S) from None
    if done.returncode:
        raise GuestError(done.stderr.strip()[-300:])
    *found, seconds = np.fromfile(folder / "found.bin")
    return np.reshape(found, (releases, len(MODELS), 3, 3)), float(seconds)
