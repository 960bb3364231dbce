import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.kernel.signing import Purpose, is_signed, sign, signed_bytes

KEY = ec.derive_private_key(7, ec.SECP256R1())


def test_the_same_content_signed_again_gives_the_same_bytes() -> None:
    assert sign(KEY, Purpose.VOTE, b"a") == sign(KEY, Purpose.VOTE, b"a")


@pytest.mark.parametrize("other", [each for each in Purpose if each is not Purpose.VOTE])
def test_a_signature_is_for_one_purpose(other: Purpose) -> None:
    signature = sign(KEY, Purpose.VOTE, b"a")
    assert is_signed(KEY.public_key(), Purpose.VOTE, b"a", signature)
    assert not is_signed(KEY.public_key(), other, b"a", signature)


def test_what_is_no_signature_of_this_key_and_content_is_refused() -> None:
    signature = sign(KEY, Purpose.VOTE, b"a")
    stranger = ec.derive_private_key(8, ec.SECP256R1()).public_key()
    assert not is_signed(stranger, Purpose.VOTE, b"a", signature)
    assert not is_signed(KEY.public_key(), Purpose.VOTE, b"b", signature)
    assert not is_signed(KEY.public_key(), Purpose.VOTE, b"a", b"")


def test_the_first_line_says_what_is_signed() -> None:
    assert signed_bytes(Purpose.VOTE, b"content") == b"dppca vote 1\ncontent"
