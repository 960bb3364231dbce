"""The trials of each data set, and a file that keeps every finished one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from benchmarks.synthesis.forms import BINS, BINS_TARGETED, PLAIN, TARGETED, list_forms
from benchmarks.synthesis.trials import BEFORE, FIELD, ONE_NOISE, OWN_NOISE, REAL, GridTrial
from dppca.common.console import progress
from dppca.common.errors import DataError
from dppca.common.numerics.threads import one_blas_thread

MECHANISMS = ("gaussian", "laplace")
EPSILONS = ("0.1", "0.2", "0.5", "1")
SPLITS, DRAWS = 3, 2
BINNED_EPSILONS = ("0.2", "1")
ONE_NOISE_FORM = {"nltcs": PLAIN, "adult": TARGETED}
"""Data sets that are also released with one noise for all owners, and what of them."""


def list_trials(subject: str, *, splits: int = SPLITS, draws: int = DRAWS) -> Iterator[GridTrial]:
    """Every trial of a data set."""
    for split in range(splits):
        yield GridTrial(subject, PLAIN, REAL, "", "", "", split, 0)
    for form, decoder, mechanism, epsilon, noise in _cells(subject):
        for split in range(splits):
            for draw in range(draws):
                yield GridTrial(subject, form, decoder, mechanism, epsilon, noise, split, draw)


def _cells(subject: str) -> Iterator[tuple[str, str, str, str, str]]:
    for form in list_forms(subject):
        if form in BINS and form != BINS_TARGETED:
            yield from ((form, FIELD, "gaussian", each, OWN_NOISE) for each in BINNED_EPSILONS)
            continue
        for mechanism in MECHANISMS:
            for epsilon in EPSILONS:
                yield form, FIELD, mechanism, epsilon, OWN_NOISE
                if form == PLAIN:
                    yield form, BEFORE, mechanism, epsilon, OWN_NOISE
                if ONE_NOISE_FORM.get(subject) == form:
                    yield form, FIELD, mechanism, epsilon, ONE_NOISE


class AnyTrial(Protocol):
    """A trial of any benchmark: a dataclass with a name for its results."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def subject(self) -> str:
        """The data set."""

    @property
    def key(self) -> str:
        """What it is known by."""


_TrialT = TypeVar("_TrialT", bound=AnyTrial)


def run_trials(
    trials: Sequence[_TrialT], path: Path, *, run: Callable[[_TrialT], Any]
) -> list[dict[str, Any]]:
    """Results of all trials: from the file, or computed and added to it as one line each.

    Parameters
    ----------
    run
        Computes one, as a dataclass.
    """
    done = read_results(path)
    missing = [trial for trial in trials if trial.key not in done]
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        one_blas_thread(),
        path.open("a") as file,
        progress(trials[0].subject, len(missing)) as bar,
    ):
        for trial in missing:
            result = {"key": trial.key, **asdict(trial), **asdict(run(trial))}
            file.write(json.dumps(result) + "\n")
            file.flush()
            os.fsync(file.fileno())
            done[trial.key] = result
            bar.advance()
    return [done[trial.key] for trial in trials]


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Finished trials of a file by their key; a last line without an end is cut off the file."""
    if not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    try:
        lines: list[Mapping[str, Any]] = [json.loads(line) for line in whole.splitlines()]
        return {line["key"]: dict(line) for line in lines}
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(f"{path} holds a line that is not a trial: move it away") from error
