"""The trials of each data set."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.synthesis.forms import BINS, BINS_TARGETED, PLAIN, TARGETED, list_forms
from benchmarks.synthesis.trials import BEFORE, FIELD, ONE_NOISE, OWN_NOISE, REAL, GridTrial

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
