"""Parties of a simulated study in one process: releases, admission, openings, pooling.

The parties' own code takes every step (`dppca.owner.ledger.path`,
`dppca.common.kernel.aggregation`, `dppca.curator.study`), in their order, on values in memory.
Steps that need more than one process are missing: certificates, the wire, files, and the ledger. So
no owner is charged: a reservation is made for the receipt, and no ledger holds it.

With ``trust: aggregate`` the owners get temporary keys, and the sums are masked, voted on and
opened as in the field; but this process sees everything, the bare sums too.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.analysis.rows.refinement import choose_size, draft_text, refine, write_rows
from dppca.common.analysis.study_file import study_from_document
from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.aggregation.opening import answer, open_set, vote
from dppca.common.kernel.aggregation.pooling import require_opening, show_set
from dppca.common.kernel.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.kernel.aggregation.sum_messages import Opening, Upload
from dppca.common.kernel.aggregation.terms import Terms, key_bytes
from dppca.common.kernel.attestation.contributions import SignedRelease
from dppca.common.kernel.attestation.results import Published, Result, result_to_bytes
from dppca.common.kernel.documents.messages import RELEASE_ID_BYTES, StudyState
from dppca.common.kernel.durable.files import PRIVATE
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.release import Release, calibrate
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.kernel.study import Study, Trust, load_study_file, study_from_mapping
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import contribute, require_masked
from dppca.curator.study.aggregate import aggregate, aggregate_masked
from dppca.curator.study.assembly import assemble_study
from dppca.curator.study.study_record import (
    Header,
    LedgerHead,
    OwnerHistory,
    StoredResult,
    StudyRecord,
)
from dppca.deploy.simulation.aggregation import OPEN_BY, Aggregation, Refinement, write_draft
from dppca.owner.ledger.entries import ReleaseRequest, Reservation
from dppca.owner.ledger.path import ContributionPlan, MaskedPlan
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.release.contribution import request_contribution

_DATA_SET = "rows"
_HEAD = bytes(32)


@dataclass(frozen=True, slots=True)
class Parties:
    """A study and its parties' keys.

    ``keys`` has the key of each owner's certificate, empty with ``trust: owner``; ``secrets`` has
    the secret of each opener.
    """

    study: Study
    keys: Mapping[str, ec.EllipticCurvePrivateKey]
    secrets: Mapping[str, OpenerKey]


def make_parties(
    study: Study, aggregation: Aggregation | None, *, entropy: EntropySource
) -> Parties:
    """Create the parties of a study with ``trust: owner``.

    ``aggregation`` makes it a study with ``trust: aggregate``, of owners with new keys. Raise
    `StudyError` if the numbers of owners, openers and colluders do not fit.
    """
    if aggregation is None:
        return Parties(study, {}, {})
    draft = write_draft(study, aggregation)
    return _add_keys(draft, study.name, study.owners, aggregation.openers, entropy=entropy)


def read_study(source: str | Path, *, entropy: EntropySource) -> Study:
    """Read a study file by its text or path; a draft of ``trust: aggregate`` gets temporary keys.

    A draft names neither identities nor openers, like the file that ``study assemble`` takes. As
    many of its first owners become openers as its colluders and spares need. Raise `StudyError` as
    `study_from_yaml` does.
    """
    document, text = load_study_file(source)
    privacy, owners, spares = (document.get(name) for name in ("privacy", "owners", "spares"))
    trust, colluders = (
        privacy.get(name) if isinstance(privacy, dict) else None for name in ("trust", "colluders")
    )
    keyed = "identities" in document or "openers" in document
    if keyed or trust != Trust.AGGREGATE.value or not isinstance(owners, list):
        return study_from_document(document, text=text)
    needed = [number for number in (colluders, spares, spares) if isinstance(number, int)]
    names = [str(name) for name in owners]
    return _add_keys(
        text, str(document.get("name", "")), names, 1 + sum(needed), entropy=entropy
    ).study


def continue_study(
    parties: Parties, result: Result, refinement: Refinement, *, entropy: EntropySource
) -> Parties:
    """Return a second study of the same owners, of trees grown on rows drawn from a result."""
    first, content = parties.study, result_to_bytes(result)
    sha256, delta = hashlib.sha256(content).digest(), first.privacy.delta
    size = choose_size(first, epsilon=refinement.epsilon, delta=delta, n_rows=result.header.n_rows)
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.parquet"
        write_rows(rows, result, first, sha256=sha256, mode=PRIVATE)
        document = refine(
            first,
            sha256=sha256,
            rows=rows,
            target=refinement.target,
            size=(size.trees, size.leaves),
            epsilon=refinement.epsilon,
            delta=delta,
            changes={"name": refinement.name(first)},
        )
    if first.openers is None:
        return Parties(study_from_mapping(document), {}, {})
    draft = draft_text({**document, "open_by": OPEN_BY})
    return _add_keys(draft, document["name"], first.owners, len(first.openers), entropy=entropy)


def _add_keys(
    draft: str, name: str, owners: Sequence[str], n_openers: int, *, entropy: EntropySource
) -> Parties:
    """Assemble a draft with new keys of its owners, of whom the first are openers."""
    keys = {owner: ec.generate_private_key(ec.SECP256R1()) for owner in owners}
    secrets = {owner: make_opener_key(entropy) for owner in owners[:n_openers]}
    parts = [
        (owner, _identity(name, owner, key, secrets.get(owner))) for owner, key in keys.items()
    ]
    _, study = assemble_study(draft, parts)
    return Parties(study, keys, secrets)


@one_blas_thread()  # as each party's process has; more would wait for each other
def run_study(
    parties: Parties,
    moments: Mapping[str, Moments],
    *,
    entropy: EntropySource,
    now: datetime,
    first: Published | None = None,
) -> tuple[Result, ReleaseRequest]:
    """Release every owner's sums and pool them; return the result, and the request with the charge.

    ``moments`` are exact sums over each owner's rows, *not* private; ``entropy`` other than
    `OperatingSystemEntropy` is for tests; ``first`` is what the study continues. Raise an error of
    `calibrate` or `lifecycle.create` if the study cannot begin, and `TooManyRowsError` if an owner
    has more rows than its part of ``max_rows``.
    """
    study, noise = parties.study, calibrate(parties.study)
    before = None if first is None else _stored(first)
    record = lifecycle.create(None, study, first=before, now=now)
    account = Account(_DATA_SET, Population(_DATA_SET, Budget(noise.epsilon, noise.delta)))
    request = request_contribution(study, noise, account=account)
    releases: dict[str, Release | MaskedRelease] = {}
    for owner in sorted(study.owners):
        releases[owner] = release = _release(
            parties, owner, moments[owner], noise, request, entropy=entropy
        )
        header = _announce(owner, release)
        record, _ = contribute(record, header, OwnerHistory(), calibration=noise, now=now)
        if isinstance(release, MaskedRelease):
            upload = Upload.from_bytes(release.content, Terms.from_study(study))
            payload = hashlib.sha256(upload.payload).digest()
            require_masked(study, header, upload, payload)
    return replace(_pool(parties, record, noise, releases, first), first=first), request


def _stored(published: Published) -> StudyRecord:
    """Return a study with its result, as a curator's store has it; it has no envelope."""
    content = result_to_bytes(published.result)
    result = StoredResult(len(content), hashlib.sha256(content).digest(), b"")
    return StudyRecord(published.study, StudyState.DECOMPOSED, 0, result=result)


def _release(
    parties: Parties,
    owner: str,
    moments: Moments,
    noise: Calibration,
    request: ReleaseRequest,
    *,
    entropy: EntropySource,
) -> Release | MaskedRelease:
    study = parties.study
    reservation = Reservation(1, "", entropy.bytes(RELEASE_ID_BYTES), request)
    if owner not in parties.keys:
        return ContributionPlan(study, noise).draw(moments, reservation, entropy=entropy)
    plan = MaskedPlan(study, noise, Terms.from_study(study), owner, parties.keys[owner])
    return plan.draw(moments, reservation, entropy=entropy)


def _announce(owner: str, release: Release | MaskedRelease) -> Header:
    signed = SignedRelease(owner, release.receipt, b"")
    return Header(signed, len(release.payload()), LedgerHead(1, _HEAD))


def _pool(
    parties: Parties,
    record: StudyRecord,
    noise: Calibration,
    releases: Mapping[str, Release | MaskedRelease],
    first: Published | None,
) -> Result:
    before = None if first is None else Round(first.study, calibrate(first.study))
    study, contributions = parties.study, record.contributions
    bare = [each.packed for each in releases.values() if isinstance(each, Release)]
    if bare:
        return aggregate(study, noise, contributions, bare, before)
    terms = Terms.from_study(study)
    uploads = [
        Upload.from_bytes(each.content, terms)
        for each in releases.values()
        if isinstance(each, MaskedRelease)
    ]
    openings = _openings(parties, uploads)
    return aggregate_masked(study, noise, contributions, uploads, openings, before)


def _openings(parties: Parties, uploads: list[Upload]) -> list[Opening]:
    """Let each opener vote if votes are needed, and open the streams that are still closed."""
    terms = Terms.from_study(parties.study)
    sets = {name: show_set(terms, uploads, opener=name) for name in terms.openers}
    votes = [
        vote(
            terms,
            sets[name],
            opener=name,
            secret=parties.secrets[name],
            key=parties.keys[name],
            bound=None,
        )
        for name in terms.openers[: terms.votes_needed]
    ]
    opened: set[int] = set()
    openings: list[Opening] = []
    for name, shown in sets.items():
        wanted = [stream for stream in terms.held(name) if stream not in opened]
        if not wanted:
            continue
        sums = open_set(terms, shown, votes, opener=name, secret=parties.secrets[name], bound=None)
        opening = answer(terms, sums, wanted, opener=name, key=parties.keys[name])
        require_opening(terms, shown.digest, opening)
        opened.update(wanted)
        openings.append(opening)
    return openings


def _identity(
    study: str, owner: str, key: ec.EllipticCurvePrivateKey, secret: OpenerKey | None
) -> str:
    opener = None
    if secret is not None:
        signature = sign(key, Purpose.OPENER, secret.public)
        opener = {"key": _text(secret.public), "signature": _text(signature)}
    return json.dumps(
        {
            "command": "identity",
            "study": study,
            "owner": owner,
            "key": _text(key_bytes(key.public_key())),
            "opener": opener,
        }
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
