"""One study with either kind of trust, and what its synthetic rows are worth.

With ``trust: owner`` each of m owners adds the whole noise; with ``aggregate`` (one colluder, two
openers, everybody comes) each adds a share. The noise is the product's, by its exact samplers, with
a seeded source of entropy. Masks change nothing of a sum and are left out: that a masked sum is the
sum of the vectors is tested elsewhere.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.synthesis.forms import PLAIN, SHAPED, TARGETED
from benchmarks.synthesis.trials import (
    cached_form,
    cached_moments,
    cached_subject,
    judge,
    make_study,
    row_columns,
)
from dppca.common.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.aggregation.terms import key_bytes
from dppca.common.messages import Form
from dppca.common.numerics.moments.moments import Moments
from dppca.common.privacy.mechanisms import Calibration, add_noise
from dppca.common.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.results import Result
from dppca.common.signing import Purpose, sign
from dppca.common.study import Study, Trust
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.assembly import assemble_study
from dppca.curator.study.study_record import Contribution, LedgerHead
from dppca.deploy.simulation.aggregation import Aggregation, write_draft
from dppca.owner.synthesis.rows import synthesize

FORMS = {"nltcs": PLAIN, "demo": SHAPED, "adult": TARGETED}
NOISE_DRAWS = 40_000
AGGREGATION = Aggregation(colluders=1, openers=2)


@dataclass(frozen=True, slots=True)
class TrustTrial:
    """One study of one data set; the seed decides the split, the noise and the rows."""

    subject: str
    mechanism: str
    epsilon: str
    owners: int
    trust: str
    seed: int

    @property
    def key(self) -> str:
        """What it is known by."""
        return "/".join(str(getattr(self, name)) for name in self.__slots__)


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
    subject = cached_subject(trial.subject)
    name = FORMS[trial.subject]
    form = cached_form(trial.subject, name)
    study = make_study(form.document, trial.mechanism, trial.epsilon, owners=trial.owners)
    if trial.trust == Trust.AGGREGATE:
        study = mask_study(study)
    calibration = calibrate(study)
    moments = cached_moments(trial.subject, name, trial.seed, trial.owners)
    entropy = SeededEntropy(int.from_bytes(trial.key.encode()) % (1 << 64))
    result = pool(study, calibration, moments, entropy=entropy)
    n_rows = sum(each.n_rows for each in moments)
    n_rows = min(n_rows, subject.most_rows or n_rows)
    begin = perf_counter()
    rng = np.random.default_rng([trial.seed, trial.owners])
    made = synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)
    values = row_columns(made, study.table)
    seconds = perf_counter() - begin
    worth = judge(subject, values, trial.seed, seconds=seconds, method="", misfit=None)
    return TrustWorth(
        worth.accuracy,
        worth.pairs,
        noise=measure_noise(calibration, trial.owners, entropy=entropy),
        forecast=float(np.sqrt(calibration.mechanisms(trial.owners))),
        seconds=seconds,
    )


def mask_study(study: Study) -> Study:
    """The same study with ``trust: aggregate`` and fresh keys."""
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in study.owners}
    entropy = SeededEntropy(1)
    secrets = {name: make_opener_key(entropy) for name in study.owners[: AGGREGATION.openers]}
    parts = [
        (name, json.dumps(identity_part(name, key, secrets.get(name))))
        for name, key in keys.items()
    ]
    return assemble_study(write_draft(study, AGGREGATION), parts)[1]


def identity_part(
    owner: str, key: ec.EllipticCurvePrivateKey, secret: OpenerKey | None
) -> dict[str, object]:
    """What ``dppca-owner identity`` prints of an owner, who is an opener if it has a secret."""
    document: dict[str, object] = {"identities": {owner: _base64(key_bytes(key.public_key()))}}
    if secret is not None:
        signature = _base64(sign(key, Purpose.OPENER, secret.public))
        document["openers"] = {owner: {"key": _base64(secret.public), "signature": signature}}
    return document


def pool(
    study: Study, calibration: Calibration, moments: Sequence[Moments], *, entropy: EntropySource
) -> Result:
    """What the curator makes of the owners' noised moments."""
    contributions = [
        Contribution(owner, b"", each.n_rows, 0, b"", LedgerHead(0, b""), b"", 0)
        for owner, each in zip(study.owners, moments, strict=True)
    ]
    vectors = (add_noise(each.packed, calibration, entropy=entropy) for each in moments)
    return aggregate(study, calibration, contributions, vectors)


def measure_noise(calibration: Calibration, owners: int, *, entropy: EntropySource) -> float:
    """Standard deviation of the sum of the owners' noises, over that of one mechanism."""
    zeros = np.zeros(NOISE_DRAWS, np.int64)
    noise = np.sum([add_noise(zeros, calibration, entropy=entropy) for _ in range(owners)], axis=0)
    one = calibration.law.deviation
    return float(np.sqrt(np.mean(noise.astype(np.float64) ** 2)) / one)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
