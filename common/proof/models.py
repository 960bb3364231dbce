"""Models that may leave: their receipt computed anew, and the seal of their file.

The file is a zip archive of skops; what the ledger of its owner stores is that archive, and a
comment at its end, the seal, is added when it is written out. So ``the file without its comment``
has the digest that stands in the owner's ledger.

Models by other methods (`common.proof.estimators`) stand on no components.

Limits: that the basis in the model follows from the components is not computed here; their receipt
and the digest of their file are compared with what the model says.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from common.errors import AlteredError, ArtefactError, DppcaError, ReceiptError, SignatureError
from common.privacy.labels import Label
from common.privacy.release import SOURCES
from common.proof import seal
from common.proof.claims import require_equal
from common.proof.components import Checked, check_envelope
from common.proof.estimators import KIND, check_estimator, largest_norm
from common.proof.signatures import Signer, require_issued
from common.schema import Binary, Categorical, Schema
from common.study import decimal_text
from common.transport.tls import Identity, Role

ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    OSError,
    RuntimeError,
    OverflowError,
    NotImplementedError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
)
"""What readers of zip archives and arrays raise on damaged files."""


def sealed_archive(payload: bytes, signer: Signer) -> bytes:
    """A model's file: the archive that the ledger stores, sealed by its owner."""
    block = seal.block_of(signer.certificate)
    return seal.sealed(seal.with_zip_comment(payload, block), signer)


def comment_of(content: bytes, *, what: str) -> bytes | None:
    """Comment of a zip archive, once every member of it could be read.

    Raises
    ------
    AlteredError
        Names the member that is not what its checksum says.
    ArtefactError
        It is no archive.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except ZIP_ERRORS as error:
        message = f"the container: not a {what} of this software, or damaged"
        raise ArtefactError(message) from error
    with archive:
        titles = _titles(archive)
        for name in archive.namelist():
            try:
                archive.read(name)
            except ZIP_ERRORS as error:
                message = f"array {titles.get(name, name.removesuffix('.npy'))}: {error}"
                raise AlteredError(message) from error
        return archive.comment or None


def verify_model(
    content: bytes, *, ca: bytes | None
) -> tuple[Checked | None, dict[str, Any], Identity]:
    """Check a model that may leave.

    Returns
    -------
    tuple
        The components' receipt (None for a model that stands on none), the model's own, who sealed
        the file.

    Raises
    ------
    ArtefactError, ReceiptError, SignatureError, AlteredError
        Names what does not hold.
    """
    block = comment_of(content, what="model")
    archive, metadata = _loaded(content)
    if metadata.get("label") != Label.RELEASED.value:
        message = f"the model is {metadata.get('label')}: it was not released and has no receipt"
        raise ReceiptError(message)
    receipt = metadata.get("receipt")
    if not isinstance(receipt, dict):
        message = "the model carries no receipt"
        raise ReceiptError(message)
    checked = None
    try:
        if metadata.get("kind") == KIND:
            check_estimator(archive, metadata)
        else:
            checked = check_envelope(metadata.get("components_receipt"), ca=ca)
            _check_receipt(archive, metadata, receipt, checked)
    except (AlteredError, ReceiptError, SignatureError):
        raise
    except (*ZIP_ERRORS, ArithmeticError, DppcaError) as error:
        message = "the receipt of the model lacks what a receipt has"
        raise ReceiptError(message) from error
    return checked, receipt, _sealed_by_owner(content, block, checked, ca=ca)


def _sealed_by_owner(
    content: bytes, block: bytes | None, checked: Checked | None, *, ca: bytes | None
) -> Identity:
    """Whoever sealed a model whose receipt holds."""
    try:
        who, certificate = seal.require_sealed(content, block)
    except AlteredError as error:
        message = (
            "the container, the basis or what the receipt does not claim (what was noised and all "
            f"claims are as they should be): {error}"
        )
        raise AlteredError(message) from error
    if ca is not None:
        require_issued(certificate, ca, what="the file's seal")
    stranger = checked is not None and who.name not in checked.study.owners
    if who.role is not Role.OWNER or stranger:
        message = f"the model was sealed by {who.role.value} {who.name}, who is no owner of it"
        raise SignatureError(message)
    return who


def _check_receipt(
    archive: dict[str, Any], metadata: dict[str, Any], receipt: dict[str, Any], checked: Checked
) -> None:
    schema = checked.study.table
    if Schema.from_document(metadata["schema"]).digest != schema.digest:
        message = "the schema in the model is not the study's"
        raise AlteredError(message)
    noised = archive["noised"]
    if _digest(noised) != receipt["weights_sha256"]:
        message = "array noised: the weights are not those that the receipt names"
        raise AlteredError(message)
    recompute = _RECOMPUTED.get(receipt.get("method", ""))
    if recompute is None:
        message = f"this version cannot compute the noise of method {receipt.get('method')} anew"
        raise ReceiptError(message)
    guarantee = checked.document["guarantee"]
    follows = {
        "study_digest": checked.study.digest,
        "schema_digest": schema.digest,
        "components_epsilon": guarantee["epsilon"],
        "components_delta": guarantee["delta"],
        "assumptions": guarantee["assumptions"],
        "label": Label.RELEASED.value,
        **recompute(receipt, schema, noised, archive),
    }
    said = {key: receipt.get(key) for key in follows}
    require_equal(follows, said, what="the receipt of the model")


def _dp_svm(
    receipt: dict[str, Any], schema: Schema, noised: Any, archive: dict[str, Any]
) -> dict[str, Any]:
    """Claims of a machine with noise on its weights (`common.methods.weights`)."""
    from common.methods.dpsvm import split_over
    from common.methods.weights import plan_weights

    index = schema.index_of(receipt["target"])
    target = schema.attributes[index]
    if not isinstance(target, Binary | Categorical):
        message = f"the receipt's target {receipt['target']} has no labels"
        raise ReceiptError(message)
    machines = 1 if len(target.labels) == 2 else len(target.labels)
    features = schema.layout.n_columns - len(range(*schema.layout.groups[index]))
    k = len(archive["components"])
    shapes = [archive["components"].shape, archive["mean"].shape, noised.shape]
    if shapes != [(k, features), (features,), (machines, k + 1)] or noised.dtype != np.int64:
        message = "arrays components, mean and noised do not have the shapes of such a model"
        raise AlteredError(message)
    norm = largest_norm(schema, receipt["target"])
    epsilon, delta = _amount(receipt["epsilon"]), _amount(receipt["delta"])
    plan = plan_weights(
        k + 1,
        n_machines=machines,
        n_rows=receipt["n_rows"],
        C=receipt["C"],
        radius=math.hypot(norm, receipt["intercept_scaling"]),
        epsilon=epsilon,
        delta=delta or None,
        max_rows_per_person=schema.max_rows_per_person,
        solver_tolerance=receipt["solver_tolerance"],
    )
    noise = plan.calibration
    return {
        "n_components": k,
        "n_machines": machines,
        "row_norm": norm,
        "step": plan.step,
        "sensitivity": plan.sensitivity,
        "mechanism": noise.mechanism.value,
        "source": SOURCES[noise.mechanism],
        "relation": noise.sensitivity.relation.value,
        "max_rows_per_person": noise.max_rows_per_person,
        "resolution_bits": noise.sensitivity.resolution_bits,
        "l1": noise.sensitivity.l1,
        "l2_squared": noise.sensitivity.l2_squared,
        "scale": noise.scale,
        "sigma_squared": noise.sigma_squared,
        "epsilon": decimal_text(noise.epsilon),
        "delta": decimal_text(noise.delta),
        "charged_epsilon": decimal_text(noise.charge.epsilon),
        "charged_rho": decimal_text(noise.charge.rho),
        "split": split_over(machines),
    }


_RECOMPUTED: dict[str, Callable[[dict[str, Any], Schema, Any, dict[str, Any]], dict[str, Any]]] = {
    "dp-svm": _dp_svm
}


def _amount(text: object) -> Decimal:
    try:
        return Decimal(str(text))
    except InvalidOperation as error:
        message = f"the receipt's amount {text!r} is no decimal"
        raise ReceiptError(message) from error


def _digest(noised: Any) -> str:
    return hashlib.sha256(np.asarray(noised).astype("<i8").tobytes()).hexdigest()


def _loaded(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and metadata of an archive; classes other than NumPy's are refused."""
    import skops.io
    from skops.io.exceptions import UnsupportedTypeException, UntrustedTypesFoundException

    errors = (*ZIP_ERRORS, UnsupportedTypeException, UntrustedTypesFoundException, ImportError)
    try:
        if skops.io.get_untrusted_types(data=content):
            message = "the model holds classes that no model of ours does: do not trust it"
            raise ArtefactError(message)
        archive = skops.io.loads(content, trusted=[])
        metadata = json.loads(archive["metadata"])
    except errors as error:
        message = "the container: not a model of this software, or damaged"
        raise ArtefactError(message) from error
    if not isinstance(archive, dict) or not isinstance(metadata, dict):
        message = "the container: not a model of this software, or damaged"
        raise ArtefactError(message)
    return archive, metadata


def _titles(archive: zipfile.ZipFile) -> dict[str, str]:
    """What the members of a skops archive hold; empty for other archives."""
    try:
        content = json.loads(archive.read("schema.json"))["content"]
        return {each["file"]: name for name, each in content.items() if "file" in each}
    except ZIP_ERRORS:
        return {}
