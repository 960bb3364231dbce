import pytest

from dppca.common.kernel.aggregation.seals import (
    SEAL_OVERHEAD,
    OpenerKey,
    load_public_key,
    make_opener_key,
    seal,
)
from dppca.common.kernel.errors import ArtefactError, SealError, StudyError
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from tests.support.checkout import ROOT

OLD = ROOT / "tests/golden/sealed-seed.bin"
KEY = make_opener_key(SeededEntropy(1))
SECRET = bytes(range(32))
SEALED = seal(SECRET, KEY.public, b"info", what="a key")


def test_a_seal_opens_with_its_key_and_info() -> None:
    assert KEY.unseal(SEALED, b"info") == SECRET
    assert OpenerKey(KEY.secret).unseal(SEALED, b"info") == SECRET
    assert len(SEALED) == len(SECRET) + SEAL_OVERHEAD


def test_a_seal_that_an_earlier_version_made_opens() -> None:
    """Made with cryptography 50.0.2; the KEM is of a draft."""
    assert KEY.unseal(OLD.read_bytes(), b"info") == SECRET


CHANGED = [
    SEALED[:place] + bytes([SEALED[place] ^ 1]) + SEALED[place + 1 :]
    for place in (0, 500, 1087, 1088, 1119, 1120, 1152, len(SEALED) - 1)
]


def test_a_changed_seal_or_one_of_another_key_or_info_does_not_open() -> None:
    for content in (*CHANGED, b"", SEALED[:-1], SEALED + b"x", SEALED[:1120], bytes(1168)):
        with pytest.raises(SealError):
            KEY.unseal(content, b"info")
    for key, info in ((make_opener_key(SeededEntropy(2)), b"info"), (KEY, b"inf")):
        with pytest.raises(SealError):
            key.unseal(SEALED, info)


def test_both_halves_of_a_key_are_needed() -> None:
    other = make_opener_key(SeededEntropy(2)).secret
    for mixed in (KEY.secret[:64] + other[64:], other[:64] + KEY.secret[64:]):
        with pytest.raises(SealError):
            OpenerKey(mixed).unseal(SEALED, b"info")


def test_a_key_is_not_shown_and_has_its_length() -> None:
    assert repr(KEY) == "OpenerKey()"
    assert KEY.secret != make_opener_key(SeededEntropy(2)).secret
    assert len(KEY.public) == 1216
    with pytest.raises(ArtefactError, match="96 bytes, not 95"):
        OpenerKey(bytes(95))
    with pytest.raises(StudyError, match="1215 bytes, not 1216"):
        load_public_key(KEY.public[:-1], what="the key")


@pytest.mark.parametrize(
    "content",
    [
        KEY.public[:1184] + bytes(32),
        KEY.public[:1184] + b"\x01" + bytes(31),
        b"\xff" * 1184 + KEY.public[1184:],
    ],
    ids=["zero", "order 1", "not reduced"],
)
def test_keys_to_which_nothing_can_be_sealed_are_refused(content: bytes) -> None:
    with pytest.raises(StudyError, match="nothing can be sealed to the key"):
        load_public_key(content, what="the key")
