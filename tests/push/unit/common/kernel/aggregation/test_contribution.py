"""Masked contributions: what comes out of all of them, and what their receipts say."""

import hashlib

import numpy as np
import pytest

from dppca.common.kernel.aggregation.contribution import MaskedRelease, draw_masked
from dppca.common.kernel.aggregation.pooling import (
    require_opening,
    require_upload,
    show_set,
    unmask,
)
from dppca.common.kernel.aggregation.sum_messages import (
    Opening,
    Upload,
    head_limit,
    read_statement,
    statement_limit,
    upload_limit,
)
from dppca.common.kernel.errors import SchemaMismatchError, UploadError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import MaskedClaims, calibrate, receipt_from_bytes
from tests.support.masked import MaskedStudy, make_masked_study

TEXTS = [{"name": f"x{n}", "type": "binary", "values": ["no", "yes"]} for n in range(30)]


def contribute(
    made: MaskedStudy, owner: str, *, seed: int, n_entries: int | None = None
) -> MaskedRelease:
    size = n_entries or made.study.table.layout.n_entries
    return draw_masked(
        made.study,
        calibrate(made.study),
        Moments(10, np.full(size, 1000, np.int64)),
        terms=made.terms,
        owner=owner,
        key=made.keys[owner],
        release_id=bytes(16),
        ledger_sequence=1,
        entropy=SeededEntropy(seed),
    )


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_sum_holds_the_noise_of_the_pool_and_no_more(mechanism: str) -> None:
    made = make_masked_study(5, 2, mechanism=mechanism, attributes=TEXTS)
    terms, noise = made.terms, calibrate(made.study)
    pooled = []
    for seed in range(12):
        releases = [
            contribute(made, name, seed=100 * seed + at) for at, name in enumerate(made.keys)
        ]
        uploads = [Upload.from_bytes(each.payload(), terms) for each in releases]
        openings = list[Opening]()
        for opener in terms.openers:
            shown = show_set(terms, uploads, opener=opener)
            openings.append(made.answer(opener, made.open(shown, ()), terms.held(opener)))
            require_opening(terms, shown.digest, openings[-1])
        pooled.append(unmask(terms, uploads, openings) - 5000)
    variance = float(np.concatenate(pooled).astype(float).var())
    one = noise.law.deviation**2
    assert variance / one == pytest.approx(noise.mechanisms(5), rel=0.12)
    assert noise.mechanisms(5) == pytest.approx(5 / 4, rel=1e-6)


def test_the_receipt_names_the_statement_and_the_share() -> None:
    made = make_masked_study(5, 2)
    release = contribute(made, "owner-2", seed=1)
    upload = Upload.from_bytes(release.payload(), made.terms)
    require_upload(made.terms, upload)
    content = release.receipt.canonical_bytes()
    again = receipt_from_bytes(content)
    assert again == release.receipt
    document = again.document()
    assert document["label"] == "masked"
    assert document["version"] == 2
    claims = again.claims
    assert isinstance(claims, MaskedClaims)
    assert (claims.trust, claims.colluders, claims.quorum, claims.honest) == ("aggregate", 1, 5, 4)
    assert claims.share_variance == calibrate(made.study).share_variance
    assert claims.payload_sha256 == hashlib.sha256(release.payload()).hexdigest()
    assert claims.statement_sha256 == hashlib.sha256(upload.statement.to_bytes()).hexdigest()


def test_the_head_of_an_upload_is_read_without_its_vector() -> None:
    made = make_masked_study(3, 2, attributes=TEXTS)
    content = contribute(made, "owner-1", seed=1).payload()
    whole = Upload.from_bytes(content, made.terms)
    limit = head_limit(made.terms)
    assert limit < len(content) <= upload_limit(made.terms)
    head = Upload.read_head(content[:limit], made.terms)
    assert (head.statement, head.signature, head.seals) == (
        whole.statement,
        whole.signature,
        whole.seals,
    )
    assert content.endswith(whole.payload)
    short = content[: statement_limit(made.terms)]
    statement, signature, place = read_statement(short, made.terms)
    assert (statement, signature) == (whole.statement, whole.signature)
    assert content[place:].startswith(b"".join(whole.seals))
    with pytest.raises(UploadError, match="is incomplete"):
        read_statement(short[:40], made.terms)
    with pytest.raises(UploadError, match="is incomplete"):
        Upload.read_head(content[: limit // 2], made.terms)


def test_moments_of_another_schema_are_refused() -> None:
    with pytest.raises(SchemaMismatchError):
        contribute(make_masked_study(3, 2), "owner-1", seed=1, n_entries=1)
