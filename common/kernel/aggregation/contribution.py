"""A masked contribution: an owner's moments with a share of the noise, masked, and their receipt.

The noised vector exists in memory only, between the draw and the masks; neither it nor a seed is
stored or shown. Only the upload is stored, hashed and sent.
"""

import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from dppca.common.kernel.aggregation.masking import mask
from dppca.common.kernel.aggregation.sum_messages import Upload
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.receipts import SOFTWARE
from dppca.common.kernel.privacy.release import MomentReceipt, masked_receipt_for, noise_moments
from dppca.common.kernel.study import Study


@dataclass(frozen=True, slots=True)
class MaskedRelease:
    """A masked contribution of one owner, ready to be stored and sent.

    ``release_id`` has 16 bytes, drawn with the reservation; ``n_rows`` is as in the receipt, 0
    where it is secret; ``content`` is the upload's bytes; ``receipt`` states its cost.
    """

    release_id: bytes
    n_rows: int
    content: bytes
    receipt: MomentReceipt

    @property
    def digest(self) -> str:
        """Digest of the study, hexadecimal, under which it was reserved."""
        return self.receipt.study_digest

    def payload(self) -> bytes:
        """Return the bytes that are stored, hashed and sent."""
        return self.content


def draw_masked(
    study: Study,
    calibration: Calibration,
    moments: Moments,
    *,
    terms: Terms,
    owner: str,
    key: ec.EllipticCurvePrivateKey,
    release_id: bytes,
    ledger_sequence: int,
    entropy: EntropySource,
) -> MaskedRelease:
    """Draw a share of the noise, mask and seal: once, after the charge has been reserved.

    ``calibration`` and ``terms`` are the study's; ``moments`` are exact sums over the owner's rows,
    in the layout of the study's schema; ``key`` belongs to the owner's certificate; ``release_id``
    and ``ledger_sequence`` come from the reservation; ``entropy`` is `OperatingSystemEntropy`,
    except in tests. Raise as `noise_moments` and `mask`.
    """
    noised = noise_moments(study, calibration, moments, entropy=entropy)
    upload = mask(terms, owner, noised, key=key, entropy=entropy)
    content = upload.to_bytes()
    receipt = masked_receipt_for(
        study,
        calibration,
        honest=terms.honest,
        release_id=release_id,
        n_rows=moments.n_rows,
        payload_sha256=hashlib.sha256(content).hexdigest(),
        ledger_sequence=ledger_sequence,
        software=SOFTWARE,
        statement_sha256=statement_sha256(upload),
    )
    return MaskedRelease(release_id, receipt.n_rows, content, receipt)


def statement_sha256(upload: Upload) -> str:
    """Return the SHA-256 of an upload's statement, hexadecimal; its receipt names it."""
    return hashlib.sha256(upload.statement.to_bytes()).hexdigest()
