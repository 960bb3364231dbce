"""Writes `sealed-seed.bin`: 32 bytes, 0 to 31, sealed to a known key with ``info`` of b"info".

``python -m tests.golden.make_sealed_seed``. A seal is fresh each time; the one here was made with
cryptography 50.0.2.
"""

from pathlib import Path

from dppca.common.kernel.aggregation.seals import make_opener_key, seal
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy

if __name__ == "__main__":
    public = make_opener_key(SeededEntropy(1)).public
    made = seal(bytes(range(32)), public, b"info", what="a key")
    Path(__file__).with_name("sealed-seed.bin").write_bytes(made)
