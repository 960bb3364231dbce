import hashlib
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from dppca.common.kernel.aggregation.seals import make_opener_key
from dppca.common.kernel.aggregation.terms import MAX_ENTRIES, Member, OfferedKey, Terms, key_bytes
from dppca.common.kernel.errors import PermissionDeniedError, StudyError
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.signing import Purpose, sign
from tests.support.aggregation import federation, owner_name, signing_key

TERMS = federation().terms
SPARE = federation(n_openers=4, spares=1).terms


def test_without_spares_an_opener_holds_one_stream_and_with_one_a_stream_has_three() -> None:
    assert TERMS.holders == (("owner-000",), ("owner-001",))
    assert [TERMS.held(each) for each in TERMS.openers] == [(0,), (1,)]
    assert (TERMS.tolerated, TERMS.votes_needed, TERMS.honest) == (1, 0, 3)
    assert len(SPARE.holders) == 4
    assert {len(each) for each in SPARE.holders} == {3}
    assert [len(SPARE.held(each)) for each in SPARE.openers] == [3] * 4
    assert (SPARE.tolerated, SPARE.votes_needed) == (1, 3)


@pytest.mark.parametrize(
    ("n_openers", "spares", "colluders", "streams"),
    [
        (2, 0, 1, 2),
        (9, 0, 3, 9),
        (4, 1, 1, 4),
        (5, 1, 1, 10),
        (5, 1, 2, 10),
        (6, 1, 3, 20),
        (8, 1, 5, 56),
        (6, 2, 1, 6),
        (7, 2, 2, 21),
        (8, 3, 1, 8),
    ],
)
def test_the_rule_of_spare_openers(
    n_openers: int, spares: int, colluders: int, streams: int
) -> None:
    terms = federation(
        10, n_openers=n_openers, spares=spares, colluders=colluders, quorum=8, n_entries=1
    ).terms
    assert len(terms.holders) == streams
    everybody = set(terms.openers)
    for against in combinations(terms.openers, terms.tolerated):
        unknown = [holders for holders in terms.holders if not set(holders) & set(against)]
        assert len(unknown) == 1, "colluders lack a stream that honest openers hold"
        for gone in combinations(terms.openers, spares):
            assert all(set(holders) - set(gone) for holders in terms.holders)
            assert len(everybody - set(gone)) >= terms.votes_needed
    if spares:
        groups = [set(each) for each in combinations(terms.openers, terms.votes_needed)]
        shared = min(len(one & other) for one in groups for other in groups)
        assert shared > terms.tolerated, "two sets would share an honest voter"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"study": "A" * 64}, "SHA-256"),
        ({"study": "a" * 63}, "SHA-256"),
        ({"n_entries": 0}, "n_entries"),
        ({"n_entries": MAX_ENTRIES + 1}, "n_entries"),
        ({"colluders": 0}, "colluders is 0"),
        ({"colluders": 2}, "need 3"),
        ({"spares": 1}, "need 4"),
        ({"spares": -1}, "spares is -1"),
        ({"quorum": 2}, r"quorum is 2; .* 3\.\.6"),
        ({"quorum": 7}, "quorum is 7"),
        ({"members": TERMS.members[::-1]}, "ascend"),
        ({"members": (*TERMS.members, TERMS.members[-1])}, "ascend"),
    ],
)
def test_numbers_that_promise_nothing_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        replace(TERMS, **changes)


def _with_last(last: Member) -> Terms:
    return replace(TERMS, members=(*TERMS.members[:-1], last))


COMPRESSED = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + signing_key(
    0
).public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "p q"}, "not the name"),
        ({"key": TERMS.members[0].key}, "same key"),
        ({"key": COMPRESSED}, "uncompressed"),
        ({"key": b""}, "the key of owner-005"),
        ({"key": bytes(91)}, "the key of owner-005"),
        (
            {"key": key_bytes(ec.generate_private_key(ec.SECP384R1()).public_key())},
            "the key of owner-005",
        ),
    ],
    ids=["name", "twice", "compressed", "empty", "zeros", "another curve"],
)
def test_a_member_has_a_name_and_a_key_of_its_own_on_p256(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        _with_last(replace(TERMS.members[-1], **changes))


def test_an_opener_key_is_signed_by_its_opener_and_offered_by_no_other() -> None:
    public = make_opener_key(SeededEntropy(9)).public
    for signer, purpose in ((0, Purpose.OPENER), (5, Purpose.VOTE)):
        offered = OfferedKey(public, sign(signing_key(signer), purpose, public))
        with pytest.raises(StudyError, match="not signed"):
            _with_last(replace(TERMS.members[-1], offered=offered))
    offered = OfferedKey(public, sign(signing_key(5), Purpose.OPENER, public))
    assert _with_last(replace(TERMS.members[-1], offered=offered)).openers[-1] == "owner-005"
    public = TERMS.members[0].offered.public  # of another opener
    offered = OfferedKey(public, sign(signing_key(5), Purpose.OPENER, public))
    with pytest.raises(StudyError, match="same key"):
        _with_last(replace(TERMS.members[-1], offered=offered))


def test_streams_are_bounded() -> None:
    keys = {owner_name(i): signing_key(i) for i in range(14)}
    members = []
    for i, (name, key) in enumerate(keys.items()):
        public = make_opener_key(SeededEntropy(i)).public
        offered = OfferedKey(public, sign(key, Purpose.OPENER, public))
        members.append(Member(name, key_bytes(key.public_key()), offered))
    with pytest.raises(StudyError, match="2,002 streams"):
        Terms(TERMS.study, 1, 9, 1, 2, tuple(members))


def test_everything_is_in_the_digest() -> None:
    others = [
        replace(TERMS, study=hashlib.sha256(b"another").hexdigest()),
        replace(TERMS, n_entries=6),
        replace(TERMS, quorum=5),
        replace(TERMS, members=(*TERMS.members[:-1],)),
        _with_last(replace(TERMS.members[-1], key=key_bytes(signing_key(77).public_key()))),
        federation(n_openers=3).terms,
        replace(federation(n_openers=3).terms, colluders=2),
        federation(n_openers=4).terms,
        SPARE,
    ]
    assert len({each.digest for each in [TERMS, *others]}) == len(others) + 1
    assert replace(TERMS).digest == TERMS.digest == hashlib.sha256(TERMS.to_bytes()).hexdigest()


def test_who_is_not_in_the_terms_has_no_key() -> None:
    with pytest.raises(PermissionDeniedError, match="'owner-9' is not an owner"):
        TERMS.public_key("owner-9")
    with pytest.raises(PermissionDeniedError, match="owner-005 is not an opener"):
        TERMS.opener_key("owner-005")
