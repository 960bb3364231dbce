"""The key stream of another source: which bytes it gives, and how much it asks for."""

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dppca.common.kernel.privacy.noise.entropy import StreamEntropy
from tests.support.noise import ScriptedEntropy

KEY = bytes(range(32))


def test_stream_is_the_encrypted_counter_under_the_sources_key() -> None:
    source = ScriptedEntropy(KEY + b"left")
    stream = StreamEntropy(source)

    block_cipher = Cipher(algorithms.AES256(KEY), modes.ECB()).encryptor()  # noqa: S305 - the block cipher alone
    blocks = [block_cipher.update(number.to_bytes(16, "big")) for number in range(3)]
    assert stream.bytes(5) + stream.bytes(0) + stream.bytes(43) == b"".join(blocks)
    assert source.rest == b"left"


def test_two_streams_of_one_source_differ() -> None:
    source = ScriptedEntropy(KEY + KEY[::-1])

    assert StreamEntropy(source).bytes(64) != StreamEntropy(source).bytes(64)
