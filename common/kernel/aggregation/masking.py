"""An owner's step: mask its vector, seal the seeds, sign.

The caller stores the upload before sending it and always sends the same one: a second upload under
the same terms would be a second release.
"""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.framing import frame
from dppca.common.kernel.aggregation.seals import seal
from dppca.common.kernel.aggregation.streams import SEED_BYTES, subtract_stream
from dppca.common.kernel.aggregation.sum_messages import Statement, Upload
from dppca.common.kernel.aggregation.terms import GUARDS, Terms, key_bytes
from dppca.common.kernel.errors import IdentityError, SettingError
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.signing import Purpose, sign


def mask(
    terms: Terms,
    owner: str,
    vector: NDArray[np.int64],
    *,
    key: ec.EllipticCurvePrivateKey,
    entropy: EntropySource,
) -> Upload:
    """Make an owner's upload; its seeds exist only in the seals.

    Raise `PermissionDeniedError` if the terms do not name the owner, `IdentityError` if they name
    another key for it, and `SettingError` if the vector has another length or type. ``vector``,
    ``(n_entries,)``, has packed sums with this owner's share of the noise; ``key`` is that of the
    owner's certificate; ``entropy`` draws the seeds: a release uses the operating system's.
    """
    if key_bytes(key.public_key()) != key_bytes(terms.public_key(owner)):
        raise IdentityError(f"the study names another key for {owner} than the one at hand")
    if vector.shape != (terms.n_entries,) or vector.dtype != np.int64:
        raise SettingError(
            f"the vector is {vector.dtype}{list(vector.shape)}, not int64[{terms.n_entries}]"
        )
    words = np.concatenate([vector.view(np.uint64), np.zeros(GUARDS, np.uint64)])
    seeds = [entropy.bytes(SEED_BYTES) for _ in terms.holders]
    for stream, seed in enumerate(seeds):
        subtract_stream(words, terms, seed, owner=owner, stream=stream)
    payload = words.astype("<u8", copy=False).tobytes()
    seals = tuple(
        seal(
            b"".join(seeds[stream] for stream in terms.held(opener)),
            terms.opener_key(opener),
            seal_info(terms, owner, opener),
            what=f"the opener key of {opener}",
        )
        for opener in terms.openers
    )
    statement = Statement(
        bytes.fromhex(terms.digest),
        owner,
        hashlib.sha256(payload).digest(),
        tuple(hashlib.sha256(each).digest() for each in seals),
    )
    return Upload(statement, sign(key, Purpose.UPLOAD, statement.to_bytes()), seals, payload)


def seal_info(terms: Terms, owner: str, opener: str) -> bytes:
    """Context of a seal: it opens only for this study, owner and opener."""
    return frame("seed", bytes.fromhex(terms.digest), owner.encode(), opener.encode())
