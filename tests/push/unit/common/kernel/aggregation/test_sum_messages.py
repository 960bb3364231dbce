from dataclasses import replace
from functools import cache

import pytest

from dppca.common.kernel.aggregation.framing import frame
from dppca.common.kernel.aggregation.opening import answer, open_set, vote
from dppca.common.kernel.aggregation.sum_messages import (
    Opening,
    SealedSet,
    SignedSeal,
    Upload,
    require_same_set,
    require_vote,
    set_digest,
)
from dppca.common.kernel.errors import (
    ConflictError,
    LimitError,
    PermissionDeniedError,
    SignatureError,
    UploadError,
)
from tests.support.aggregation import federation

SPARE = federation(n_openers=4, spares=1)
TERMS = SPARE.terms
NAMES = SPARE.names
UPLOAD = SPARE.uploads[NAMES[0]]
SHOWN = SPARE.shown(NAMES[1], NAMES[:5])
ROLE = {"opener": NAMES[1], "key": SPARE.keys[NAMES[1]]}
VOTE = vote(TERMS, SHOWN, secret=SPARE.secrets[NAMES[1]], bound=None, **ROLE)


@cache
def _opening() -> Opening:
    votes = [
        vote(
            TERMS,
            SPARE.shown(each, NAMES[:5]),
            opener=each,
            secret=SPARE.secrets[each],
            key=SPARE.keys[each],
            bound=None,
        )
        for each in NAMES[:3]
    ]
    secret = SPARE.secrets[NAMES[1]]
    sums = open_set(TERMS, SHOWN, votes, opener=NAMES[1], secret=secret, bound=SHOWN.digest)
    return answer(TERMS, sums, TERMS.held(NAMES[1])[:2], **ROLE)


MESSAGES = [UPLOAD.statement, UPLOAD, SHOWN, VOTE, _opening()]
messages = pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)


@messages
def test_a_message_comes_back_from_its_bytes(message: Upload) -> None:
    content = message.to_bytes()
    assert type(message).from_bytes(content, TERMS) == message
    assert type(message).from_bytes(content, TERMS).to_bytes() == content


@messages
def test_a_message_cut_short_or_lengthened_is_refused(message: Upload) -> None:
    content = message.to_bytes()
    for changed in (b"", content[:20], content[:-1], content + b"x", content * 9):
        with pytest.raises((UploadError, LimitError)):
            type(message).from_bytes(changed, TERMS)


@messages
def test_a_message_of_other_terms_is_refused(message: Upload) -> None:
    with pytest.raises((UploadError, LimitError)):
        type(message).from_bytes(message.to_bytes(), replace(TERMS, quorum=5))


@pytest.mark.parametrize(
    "changed",
    [
        replace(UPLOAD, payload=UPLOAD.payload[:-8]),
        replace(UPLOAD, seals=UPLOAD.seals[1:]),
        replace(UPLOAD, seals=(*UPLOAD.seals[1:], UPLOAD.seals[0][:-1])),
        replace(UPLOAD, statement=replace(UPLOAD.statement, payload_sha256=bytes(31))),
        replace(UPLOAD, statement=replace(UPLOAD.statement, seals_sha256=(bytes(32),))),
        replace(UPLOAD, statement=replace(UPLOAD.statement, owner="P")),
        replace(UPLOAD, statement=replace(UPLOAD.statement, owner="é")),
        replace(VOTE, set_digest="ab"),
        replace(VOTE, opener="x" * 65),
        replace(_opening(), set_digest="ab"),
        replace(_opening(), total=_opening().total[8:]),
        replace(_opening(), streams=tuple(range(5))),
        replace(SHOWN, entries=SHOWN.entries * 2),
    ],
)
def test_parts_of_another_length_are_refused(changed: Upload) -> None:
    with pytest.raises((UploadError, LimitError)):
        type(changed).from_bytes(changed.to_bytes(), TERMS)


def test_a_set_has_the_entries_that_it_says() -> None:
    for count in (0, 4, 6, 1 << 31):
        said = b"\0\0\0\x04" + count.to_bytes(4, "big")
        with pytest.raises((UploadError, LimitError)):
            SealedSet.from_bytes(SHOWN.to_bytes().replace(b"\0\0\0\x04\0\0\0\x05", said), TERMS)
    with pytest.raises(UploadError, match="is incomplete"):
        SealedSet.from_bytes(replace(SHOWN, entries=SHOWN.entries[:4]).to_bytes()[:-1], TERMS)
    with pytest.raises(UploadError, match="a number: 0 bytes, not 4"):
        SealedSet.from_bytes(frame("sealed set", b"owner-001", b""), TERMS)


def test_an_opening_carries_the_sum_that_it_names() -> None:
    opening = _opening()
    other = bytes(len(opening.total))
    content = frame("signed opening", opening.signed(), opening.signature, other)
    with pytest.raises(UploadError, match="not what it says"):
        Opening.from_bytes(content, TERMS)
    assert replace(opening, total=other).signed() != opening.signed()


def test_a_sets_digest_is_of_statements_in_their_order_and_not_of_signatures() -> None:
    first, second = (each.statement for each in SHOWN.entries[:2])
    assert set_digest([first, second]) != set_digest([second, first])
    assert set_digest([first]) != set_digest([first, second])
    assert set_digest([replace(first, payload_sha256=bytes(32))]) != set_digest([first])
    other = SignedSeal(first, b"another", b"")
    assert replace(SHOWN, entries=(other, *SHOWN.entries[1:])).digest == SHOWN.digest
    assert SPARE.shown(NAMES[2], NAMES[:5]).digest == SHOWN.digest


def test_a_vote_is_of_an_opener_for_one_set() -> None:
    require_vote(TERMS, SHOWN.digest, VOTE)
    with pytest.raises(ConflictError, match="another set"):
        require_vote(TERMS, "0" * 64, VOTE)
    with pytest.raises(ConflictError, match="another set"):
        require_same_set(replace(TERMS, quorum=5), SHOWN.digest, VOTE)
    with pytest.raises(SignatureError):
        require_vote(TERMS, SHOWN.digest, replace(VOTE, opener=NAMES[0]))
    with pytest.raises(PermissionDeniedError):
        require_vote(TERMS, SHOWN.digest, replace(VOTE, opener=NAMES[5]))
