"""Masks against AES and HKDF put together by hand."""

import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dppca.common.kernel.aggregation.framing import frame
from dppca.common.kernel.aggregation.streams import add_stream
from tests.support.aggregation import federation

TERMS = federation().terms
SEED = bytes(range(32))


def _stream(n_words: int, owner: str = "owner-001", stream: int = 1) -> np.ndarray:
    total = np.zeros(n_words, np.uint64)
    add_stream(total, TERMS, SEED, owner=owner, stream=stream)
    return total


@pytest.mark.parametrize("n_words", [1, 2, 3, 7, 32_768, 32_769, 100_001])
def test_a_mask_is_aes_in_counter_mode_keyed_by_hkdf(n_words: int) -> None:
    extracted = hmac.digest(bytes(32), SEED, "sha256")
    info = frame("mask", bytes.fromhex(TERMS.digest), b"owner-001", b"1")
    key = hmac.digest(extracted, info + b"\x01", "sha256")
    blocks = b"".join(counter.to_bytes(16, "big") for counter in range(n_words // 2 + 1))
    stream = Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(blocks)  # noqa: S305
    assert _stream(n_words).tolist() == np.frombuffer(stream, "<u8")[:n_words].tolist()


def test_a_mask_is_of_one_owner_stream_and_study() -> None:
    other = np.zeros(4, np.uint64)
    add_stream(other, federation(n_entries=6).terms, SEED, owner="owner-001", stream=1)
    streams = [_stream(4), _stream(4, owner="owner-002"), _stream(4, stream=0), other]
    assert len(np.unique(np.concatenate(streams))) == 16
