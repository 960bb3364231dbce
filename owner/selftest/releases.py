"""Audits of every kind of release, by its own draw, in releases of 40,000 entries and more.

A kind of release is a `ReleasePlan` (`dppca.owner.ledger.path`), and each is drawn here with each
law that it can have, from values that are 0 in one release and not in the next one. The noise is
what the bytes that would leave hold beyond those values; masks come off by the openers' keys.

Of a masked contribution each owner has a share of the noise. The study has four owners of whom two
may collude, so any two shares must add up to the law of one mechanism.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import combinations
from types import MappingProxyType

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.masking import seal_info
from dppca.common.kernel.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.kernel.aggregation.streams import SEED_BYTES, add_stream
from dppca.common.kernel.aggregation.sum_messages import Upload
from dppca.common.kernel.aggregation.terms import GUARDS, Terms, key_bytes
from dppca.common.kernel.attestation.results import Result, ResultHeader
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.noise.entropy import EntropySource, OperatingSystemEntropy
from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.common.verification.model_archives import open_archive
from dppca.owner.ledger.entries import ReleaseRequest, Reservation
from dppca.owner.ledger.path import ContributionPlan, MaskedPlan
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.release.contribution import request_contribution
from dppca.owner.release.weights import plan_release, request_weights
from dppca.owner.selftest.draws import CountingEntropy
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.judging import LEVEL, judge_independence, judge_law, judge_randomness
from dppca.owner.selftest.laws import bits, dkw, dkw_limit

Noise = NDArray[np.int64]
_OWNERS, _COLLUDERS = ("owner-1", "owner-2", "owner-3", "owner-4"), 2
_HONEST = len(_OWNERS) - _COLLUDERS
_KEY_BITS = 256  # random bits of an upload besides its seeds
_ACCOUNT = Account("audit", Population("audit", Budget(Decimal(100), Decimal("0.5"))))
_CELLS, _LABELS = 192, 200  # of each of two tables' sides, and labels: many entries in one release
_LARGE = 1 << 40  # value of a row beside zeros


@dataclass(frozen=True, slots=True)
class ReleaseAudit:
    """A kind of release with a law.

    ``draws`` gives, without end, the noise of one release after another, shape (m, D) each: m
    vectors that are independent, or shares of one owner each. ``law`` is that of each entry of a
    vector, or of ``honest`` shares together; ``key_bits`` is what a release takes at least from the
    operating system where its noise comes from a stream under a key.
    """

    title: str
    law: IndependentLaw
    draws: Callable[[EntropySource], Iterator[Noise]]
    honest: int | None = None
    key_bits: int = 0


def release_audits() -> tuple[ReleaseAudit, ...]:
    """Return every kind of release of this site's, with every law that it can have."""
    makers = (_contributions, _masked, _models)
    return tuple(make(name) for make in makers for name in LAWS)


def audit_release(
    audit: ReleaseAudit, *, n_releases: int, advance: Callable[[int], None]
) -> list[Finding]:
    """Draw ``n_releases >= 2`` releases of a kind, and check their noise."""
    entropy = CountingEntropy(OperatingSystemEntropy())
    source, drawn = audit.draws(entropy), []
    for _ in range(n_releases):
        drawn.append(next(source))
        advance(1)
    vectors = np.stack(drawn)  # (n_releases, m, D)
    findings = []
    if audit.honest is not None:
        findings.append(_shares(audit, vectors))
        vectors = vectors[:, ::2] + vectors[:, 1::2]
    noise = vectors.reshape(-1, vectors.shape[-1])
    needed = n_releases * audit.key_bits or bits(audit.law, noise)
    return [
        judge_law(audit.title, noise, audit.law),
        judge_independence(audit.title, noise, audit.law),
        *findings,
        judge_randomness(audit.title, needed, 8.0 * entropy.taken),
    ]


def _shares(audit: ReleaseAudit, shares: Noise) -> Finding:
    """Check that the shares of any two owners, (n_releases, owners, D), add up to the law."""
    pairs = list(combinations(range(shares.shape[1]), _HONEST))
    size = shares[:, 0].size
    limit = dkw_limit(size, LEVEL / len(pairs))
    distances = {pair: dkw(shares[:, pair].sum(axis=1).ravel(), audit.law) for pair in pairs}
    wrong = [pair for pair, distance in distances.items() if distance > limit]
    worst = max(distances.values())
    says = (
        f"owners {' and '.join(str(i + 1) for i in wrong[0])} do not add the noise of one mechanism"
        if wrong
        else f"any {_HONEST} of {shares.shape[1]} owners add the noise of one mechanism: distance "
        f"{worst:.5f} of {limit:.5f} allowed"
    )
    return Finding(
        f"{audit.title}: shares",
        not wrong,
        says,
        LEVEL,
        {"releases": size, "distance": worst, "limit": limit},
        audit.title,
    )


def _contributions(law: str) -> ReleaseAudit:
    study = wide_study({}, law)
    calibration = calibrate(study)
    plan, reservation = ContributionPlan(study, calibration), _reserve(request_of(study))

    def draws(entropy: EntropySource) -> Iterator[Noise]:
        for exact in make_values(study.table.layout.n_entries):
            release = plan.draw(Moments(3, exact), reservation, entropy=entropy)
            yield (np.frombuffer(release.payload(), "<i8") - exact)[None]

    return ReleaseAudit(f"{law.title()} contribution", calibration.law.of_entries, draws)


@dataclass(frozen=True)
class MaskedParties:
    """Owners of masked studies, with their keys and the secrets of those who may be openers."""

    keys: Mapping[str, ec.EllipticCurvePrivateKey]
    secrets: Mapping[str, OpenerKey]

    def document(self, *, n_owners: int, n_openers: int) -> dict[str, object]:
        """Return the fields of a study of the first owners."""
        names = list(self.keys)[:n_owners]
        return {
            "owners": names,
            "identities": {each: _text(key_bytes(self.keys[each].public_key())) for each in names},
            "openers": {each: self._offer(each) for each in names[:n_openers]},
            "open_by": "2100-01-01T00:00:00+00:00",
        }

    def _offer(self, name: str) -> dict[str, str]:
        public = self.secrets[name].public
        signature = sign(self.keys[name], Purpose.OPENER, public)
        return {"key": _text(public), "signature": _text(signature)}


def make_parties() -> MaskedParties:
    """Make the keys of four owners."""
    entropy = OperatingSystemEntropy()
    return MaskedParties(
        {name: ec.generate_private_key(ec.SECP256R1()) for name in _OWNERS},
        {name: make_opener_key(entropy) for name in _OWNERS},
    )


def _masked(law: str) -> ReleaseAudit:
    parties = make_parties()
    keys, secrets = parties.keys, parties.secrets
    study = wide_study(
        parties.document(n_owners=len(_OWNERS), n_openers=_COLLUDERS + 1),
        law,
        trust="aggregate",
        colluders=_COLLUDERS,
    )
    calibration, terms = calibrate(study), Terms.from_study(study)
    plans = [MaskedPlan(study, calibration, terms, name, keys[name]) for name in _OWNERS]
    reservation = _reserve(request_of(study))

    def draws(entropy: EntropySource) -> Iterator[Noise]:
        for exact in make_values(study.table.layout.n_entries):
            yield np.stack(
                [
                    unmasked(
                        Upload.from_bytes(
                            plan.draw(Moments(3, exact), reservation, entropy=entropy).payload(),
                            terms,
                        ),
                        terms,
                        secrets,
                    )
                    - exact
                    for plan in plans
                ]
            )

    seeds = len(terms.holders) * SEED_BYTES * 8
    return ReleaseAudit(
        f"{law.title()} masked contribution",
        calibrate(wide_study({}, law)).law.of_entries,
        draws,
        honest=_HONEST,
        key_bits=len(_OWNERS) * (seeds + _KEY_BITS),
    )


def _models(law: str) -> ReleaseAudit:
    labels = [str(label) for label in range(_LABELS)]
    others = [{"name": f"b{i}", "type": "binary", "values": ["no", "yes"]} for i in range(_LABELS)]
    target = {"name": "target", "type": "categorical", "categories": labels}
    study = make_study("model", privacy_of(law), [target, *others], components=_LABELS)
    asked = request_weights(
        study,
        data_set="audit",
        target="target",
        epsilon="0.001",  # a wide law, in which equal draws are rare
        delta=privacy_of(law).get("delta"),
        C=1.0,
    )
    plan = plan_release(asked, no_result(study, _LABELS), n_rows=1000, components_sha256="0" * 64)
    reservation = _reserve(plan.request(account=_ACCOUNT, command=""))

    def draws(entropy: EntropySource) -> Iterator[Noise]:
        for exact in make_values(plan.weights.n_machines * plan.weights.D):
            content = plan.draw(exact, reservation, entropy=entropy).payload()
            noised = np.asarray(open_archive(content).state["noised_"], np.int64)
            yield (noised.ravel() - exact)[None]

    return ReleaseAudit(f"{law.title()} model", plan.weights.calibration.law.of_entries, draws)


def wide_study(changes: dict[str, object], law: str, **privacy: object) -> Study:
    """Return a study of 40,000 entries: sums, products, a histogram, and tables of many cells."""
    numerics = [
        {"name": name, "type": "numeric", "lower": 0, "upper": 1, "histogram": name == "a"}
        for name in "abc"
    ]
    binaries = [{"name": f"b{i}", "type": "binary", "values": ["no", "yes"]} for i in range(80)]
    cells = {"a": _CELLS, "b": _CELLS}
    return make_study(
        "wide",
        privacy_of(law) | privacy,
        [*numerics, *binaries],
        changes=changes,
        targets=["b0"],
        tables=[{"table": ["a", "b"], "cells": cells}, {"table": ["b0", "b1"]}],
    )


def make_study(
    name: str,
    privacy: dict[str, object],
    attributes: Sequence[Mapping[str, object]],
    *,
    components: int = 1,
    changes: Mapping[str, object] = MappingProxyType({}),
    **schema: object,
) -> Study:
    """Return a study for an audit."""
    return study_from_mapping(
        {
            "name": name,
            "owners": ["owner-1"],
            "privacy": privacy,
            "components": {"count": components},
            "schema": {
                "resolution_bits": 10,
                "max_rows_per_person": 1,
                "attributes": list(attributes),
                **schema,
            },
            **changes,
        }
    )


def privacy_of(law: str) -> dict[str, object]:
    """Return how an audit asks for a law."""
    delta = {"delta": "0.000001"} if LAWS[law].needs_delta else {}
    return {"mechanism": law, "epsilon": "1", **delta}


def request_of(study: Study) -> ReleaseRequest:
    """Return the request of a contribution."""
    return request_contribution(study, calibrate(study), account=_ACCOUNT)


def no_result(study: Study, k: int) -> Result:
    """Return a result of nobody's rows with k components, for the shape of a model alone."""
    p = study.table.layout.n_columns
    header = ResultHeader(
        study_digest=study.digest,
        shares=(),
        missing=(),
        count=k,
        covariance=study.covariance.value,
        noise_edge=0.0,
        noise_edge_draws=0,
        epsilon="1",
        delta="0",
        relation="",
        max_rows_per_person=1,
        assumptions=(),
        software="",
    )
    within = np.diag(np.arange(p, 0.0, -1.0))
    pooled = np.zeros(study.table.layout.n_entries, np.int64)
    return Result(header, pooled, within, np.zeros(p), np.arange(p, 0.0, -1.0), np.eye(p)[:k])


def _reserve(request: ReleaseRequest) -> Reservation:
    return Reservation(1, datetime.now(UTC).isoformat(), bytes(16), request)


def make_values(n_entries: int) -> Iterator[Noise]:
    """Give values that are all 0, then others, in turns."""
    other = np.arange(n_entries) % 7 * _LARGE - _LARGE
    while True:
        yield np.zeros(n_entries, np.int64)
        yield other


def unmasked(upload: Upload, terms: Terms, secrets: Mapping[str, OpenerKey]) -> Noise:
    """Return what all openers together could see of one owner's upload, shape (D,)."""
    words = np.frombuffer(upload.payload, "<u8").astype(np.uint64)
    owner = upload.statement.owner
    held = dict[int, bytes]()  # where the study has spares, several openers hold a stream
    for opener, seal in zip(terms.openers, upload.seals, strict=True):
        seeds = secrets[opener].unseal(seal, seal_info(terms, owner, opener))
        for place, stream in enumerate(terms.held(opener)):
            held[stream] = seeds[SEED_BYTES * place : SEED_BYTES * (place + 1)]
    for stream, seed in held.items():
        add_stream(words, terms, seed, owner=owner, stream=stream)
    return words.view(np.int64)[:-GUARDS]


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
