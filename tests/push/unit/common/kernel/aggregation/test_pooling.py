from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dppca.common.kernel.aggregation.masking import mask
from dppca.common.kernel.aggregation.pooling import (
    LARGEST,
    require_opening,
    require_upload,
    show_set,
    unmask,
)
from dppca.common.kernel.aggregation.sum_messages import Opening, Upload
from dppca.common.kernel.errors import (
    ConflictError,
    GarbledSumError,
    PermissionDeniedError,
    SignatureError,
    UploadError,
)
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.signing import Purpose, sign
from tests.support.aggregation import federation

PLAIN = federation()
TERMS = PLAIN.terms
NAMES = PLAIN.names
SET = NAMES[1:5]
UPLOADS = [PLAIN.uploads[each] for each in SET]


def _openings(uploads: Sequence[Upload] = UPLOADS) -> list[Opening]:
    made = []
    for place, each in enumerate(TERMS.openers):
        shown = show_set(TERMS, uploads, opener=each)
        made.append(PLAIN.answer(each, PLAIN.open(shown, ()), (place,)))
    return made


def _masked(**vectors: int) -> list[Upload]:
    """Uploads of constant vectors, by owner's last digit."""
    return [
        mask(
            TERMS,
            name,
            np.full(TERMS.n_entries, value),
            key=PLAIN.keys[name],
            entropy=SeededEntropy(i),
        )
        for i, (name, value) in enumerate(
            (f"owner-00{each[1:]}", value) for each, value in vectors.items()
        )
    ]


@pytest.mark.parametrize(
    ("n_openers", "spares", "colluders", "n_owners"),
    [(2, 0, 1, 6), (3, 0, 1, 6), (4, 1, 1, 6), (5, 1, 1, 6), (5, 1, 2, 6), (6, 2, 1, 7)],
)
def test_any_spares_may_go_for_good_at_any_moment(
    n_openers: int, spares: int, colluders: int, n_owners: int
) -> None:
    who = federation(n_owners, n_openers=n_openers, spares=spares, colluders=colluders)
    owners = who.names[1:]
    total = who.summed(owners).tolist()
    for gone in combinations(who.terms.openers, spares):
        for moment in ("never", "after_vote", "after_opening"):
            assert who.finish(owners, **{moment: gone}).tolist() == total


def test_an_upload_is_what_its_owner_signed() -> None:
    upload = UPLOADS[0]
    require_upload(TERMS, upload)
    other = PLAIN.uploads[NAMES[5]]
    for changed in (
        replace(upload, payload=other.payload),
        replace(upload, seals=other.seals),
        replace(upload, seals=upload.seals[::-1]),
    ):
        with pytest.raises(UploadError, match="owner-001 is not what"):
            require_upload(TERMS, changed)
    with pytest.raises(SignatureError):
        require_upload(TERMS, replace(upload, signature=other.signature))
    with pytest.raises(PermissionDeniedError):
        require_upload(TERMS, replace(upload, statement=replace(upload.statement, owner="p")))
    said = replace(upload.statement, terms=bytes(32))
    signature = sign(PLAIN.keys[NAMES[1]], Purpose.UPLOAD, said.to_bytes())
    with pytest.raises(UploadError):
        require_upload(TERMS, replace(upload, statement=said, signature=signature))


def test_an_opening_is_what_an_opener_signed_for_this_set() -> None:
    opening = _openings()[1]
    require_opening(TERMS, opening.set_digest, opening)
    with pytest.raises(ConflictError):
        require_opening(TERMS, "0" * 64, opening)
    with pytest.raises(SignatureError):
        require_opening(TERMS, opening.set_digest, replace(opening, total=bytes(56)))
    with pytest.raises(SignatureError):
        require_opening(TERMS, opening.set_digest, replace(opening, opener=NAMES[0]))
    with pytest.raises(PermissionDeniedError):
        require_opening(TERMS, opening.set_digest, replace(opening, opener=NAMES[4]))


@pytest.mark.parametrize("streams", [(0,), (1, 1), (7,)])
def test_an_opening_of_streams_that_are_not_held_is_refused(streams: tuple[int, ...]) -> None:
    made = replace(_openings()[1], streams=streams)
    made = replace(made, signature=sign(PLAIN.keys[NAMES[1]], Purpose.OPENING, made.signed()))
    with pytest.raises(UploadError, match="does not hold"):
        require_opening(TERMS, made.set_digest, made)


def test_only_openers_are_shown_a_set() -> None:
    with pytest.raises(PermissionDeniedError):
        show_set(TERMS, UPLOADS, opener=NAMES[4])


def test_openings_are_of_the_set_and_have_every_stream_once() -> None:
    openings = _openings()
    for some in (openings[:1], [*openings, openings[0]], []):
        with pytest.raises(ConflictError, match="every stream once"):
            unmask(TERMS, UPLOADS, some)
    with pytest.raises(ConflictError, match="another set"):
        unmask(TERMS, UPLOADS[1:], openings)


@pytest.mark.parametrize("wrong", [1, 1 << 63])
def test_a_sum_whose_guards_are_not_zero_is_refused(wrong: int) -> None:
    openings = _openings()
    words = np.frombuffer(openings[0].total, "<u8").copy()
    words[-1] += np.uint64(wrong)
    with pytest.raises(GarbledSumError, match="did not follow"):
        unmask(TERMS, UPLOADS, [replace(openings[0], total=words.tobytes()), openings[1]])


@pytest.mark.parametrize("sign_", [1, -1])
def test_entries_up_to_the_largest_pass(sign_: int) -> None:
    fits = _masked(_1=sign_ * (LARGEST - 1), _2=0, _3=0, _4=0)
    assert unmask(TERMS, fits, _openings(fits)).tolist() == [sign_ * (LARGEST - 1)] * 5
    over = _masked(_1=sign_ * (LARGEST - 1), _2=sign_, _3=0, _4=0)
    with pytest.raises(GarbledSumError):
        unmask(TERMS, over, _openings(over))
