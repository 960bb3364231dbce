"""One study with either kind of trust, and what its synthetic rows are worth.

With ``trust: owner`` each of m owners adds the whole noise; with ``aggregate`` (one colluder, two
openers, everybody comes) each adds a share. The noise is the product's, by its exact samplers, with
a seeded source of entropy. Masks change nothing of a sum and are left out: that a masked sum is the
sum of the vectors is tested elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.experiment import KeyedTrial
from benchmarks.releases import make_keys, mask_study, pool
from benchmarks.synthesis.forms import PLAIN, SHAPED, TARGETED, find_form
from benchmarks.synthesis.judging import (
    find_accuracies,
    find_reference,
    find_variation,
    pair_tables,
)
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import cached_moments, make_study, row_columns
from dppca.common.documents.messages import Form
from dppca.common.privacy.mechanisms import Calibration, add_noise
from dppca.common.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.study import Trust
from dppca.owner.synthesis.rows import synthesize

FORMS = {"nltcs": PLAIN, "demo": SHAPED, "adult": TARGETED}
NOISE_DRAWS = 40_000
OPENERS = 2


@dataclass(frozen=True, slots=True)
class TrustTrial(KeyedTrial):
    """One study of one data set; the seed decides the split, the noise and the rows."""

    subject: str
    mechanism: str
    epsilon: str
    owners: int
    trust: str
    seed: int


@dataclass(frozen=True, slots=True)
class TrustWorth:
    """What came of it.

    Attributes
    ----------
    accuracy
        A linear SVM's, trained on decoded synthetic rows, on real held-out rows, by target.
    pairs
        Mean total variation of the two-way tables.
    noise
        Standard deviation of the pooled noise, over that of one mechanism, in `NOISE_DRAWS` more
        draws of it.
    forecast
        What it was expected to be: sqrt(m), or sqrt(m / h).
    """

    accuracy: dict[str, float]
    pairs: float
    noise: float
    forecast: float
    seconds: float


def run_trial(trial: TrustTrial) -> TrustWorth:
    """Draw the noise, pool, make rows, judge them."""
    name, seed = trial.subject, trial.seed
    subject = load_subject(name)
    form = find_form(subject, FORMS[name])
    study = make_study(form, trial.mechanism, trial.epsilon, owners=trial.owners)
    if trial.trust == Trust.AGGREGATE:
        keys = make_keys(study.owners)
        study, _ = mask_study(study, keys, openers=OPENERS, entropy=SeededEntropy(1))
    calibration = calibrate(study)
    moments = cached_moments(name, FORMS[name], seed, trial.owners)
    entropy = SeededEntropy(int.from_bytes(trial.key.encode()) % (1 << 64))
    vectors = [add_noise(each.packed, calibration, entropy=entropy) for each in moments]
    counts = [each.n_rows for each in moments]
    result = pool(study, calibration, counts, vectors)
    begin, rng = perf_counter(), np.random.default_rng([seed, trial.owners])
    n_rows = min(sum(counts), subject.most_rows)
    made = synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)
    columns = row_columns(made, study.table)
    seconds = perf_counter() - begin
    return TrustWorth(
        accuracy=find_accuracies(name, columns, seed),
        pairs=find_variation(pair_tables(subject, columns), find_reference(name, seed).pairs),
        noise=measure_noise(calibration, trial.owners, entropy=entropy),
        forecast=float(np.sqrt(calibration.mechanisms(trial.owners))),
        seconds=seconds,
    )


def measure_noise(calibration: Calibration, owners: int, *, entropy: EntropySource) -> float:
    """Standard deviation of the sum of the owners' noises, over that of one mechanism."""
    zeros = np.zeros(NOISE_DRAWS, np.int64)
    noise = np.sum([add_noise(zeros, calibration, entropy=entropy) for _ in range(owners)], axis=0)
    one = calibration.law.deviation
    return float(np.sqrt(np.mean(noise.astype(np.float64) ** 2)) / one)
