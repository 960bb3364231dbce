import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.masking import mask
from dppca.common.kernel.aggregation.streams import add_stream
from dppca.common.kernel.errors import IdentityError, PermissionDeniedError, SettingError
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from tests.support.aggregation import federation, signing_key

SPARE = federation(n_openers=4, spares=1)
TERMS = SPARE.terms
NAME = SPARE.names[4]
VECTOR = SPARE.vectors[NAME]
KEY = SPARE.keys[NAME]


def test_an_upload_and_all_masks_are_the_vector_with_guards_of_zero() -> None:
    upload = SPARE.uploads[NAME]
    assert upload.statement.terms.hex() == TERMS.digest
    words = np.frombuffer(upload.payload, "<u8").copy()
    assert np.count_nonzero(words[:-2].view(np.int64) == VECTOR) == 0
    seeds = {stream: SPARE.seeds[NAME, stream] for stream in range(len(TERMS.holders))}
    assert len(set(SPARE.seeds.values())) == len(SPARE.seeds) == 6 * len(seeds)
    for stream, seed in seeds.items():
        add_stream(words, TERMS, seed, owner=NAME, stream=stream)
    assert words.view(np.int64).tolist() == [*VECTOR, 0, 0]


def test_any_int64_can_be_masked() -> None:
    ends = np.array([-(2**63), 2**63 - 1, -1, 0, 1])
    before = ends.copy()
    upload = mask(TERMS, NAME, ends, key=KEY, entropy=SeededEntropy(3))
    assert len(upload.payload) == 8 * TERMS.n_words
    assert (ends == before).all(), "the caller's vector is not changed"


def test_seeds_come_from_the_entropy_given_and_are_fresh() -> None:
    same = mask(TERMS, NAME, VECTOR, key=KEY, entropy=SeededEntropy(1004))
    other = mask(TERMS, NAME, VECTOR, key=KEY, entropy=SeededEntropy(1005))
    assert same.payload == SPARE.uploads[NAME].payload != other.payload
    assert same.seals != SPARE.uploads[NAME].seals, "a seal is fresh each time"


@pytest.mark.parametrize(
    "vector", [VECTOR[:-1], VECTOR.astype(float), VECTOR.reshape(1, -1), VECTOR.view(np.uint64)]
)
def test_a_vector_of_another_kind_is_refused(vector: NDArray[np.int64]) -> None:
    with pytest.raises(SettingError, match="not int64"):
        mask(TERMS, NAME, vector, key=KEY, entropy=SeededEntropy(3))


def test_a_site_masks_as_itself_only() -> None:
    with pytest.raises(IdentityError, match="another key for owner-004"):
        mask(TERMS, NAME, VECTOR, key=signing_key(99), entropy=SeededEntropy(3))
    with pytest.raises(PermissionDeniedError):
        mask(TERMS, "stranger", VECTOR, key=KEY, entropy=SeededEntropy(3))
