"""Archives of models.

An archive is a zip file of skops: metadata as JSON, and arrays or machines of scikit-learn. Unlike
a pickle, it runs no code of its own when loaded. It has three members:

* ``metadata``: labels, schema, target, method, settings, and the receipt of a model that may leave;
* ``state``: the few fitted values for predictions;
* ``space``: the study's components, on which rows are projected.
"""

import json
import struct
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

from dppca.common.kernel.attestation.archives import require_model
from dppca.common.kernel.errors import ArtefactError

KIND, VERSION = "model", 1
DPPCA_SVM, DP_SVM = "dppca-svm", "dp-svm"

ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ImportError,
    EOFError,
    OSError,
    RuntimeError,
    OverflowError,
    NotImplementedError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
)
"""Errors of readers of archives and arrays on files that are damaged or made by hand."""


@dataclass(frozen=True, slots=True)
class ModelArchive:
    """Content of an archive, checked for its form only."""

    metadata: dict[str, Any]
    state: dict[str, Any]
    space: dict[str, Any]


def open_archive(content: bytes) -> ModelArchive:
    """Read an archive.

    Raise `ArtefactError` if it is no archive of a model or has classes other than scikit-learn's
    (in a command, those of our models) and NumPy's.
    """
    from dppca.common.verification.model_classes import archives, exceptions

    refusals = (exceptions.UnsupportedTypeException, exceptions.UntrustedTypesFoundException)
    errors = (*ARCHIVE_ERRORS, *refusals)
    try:
        require_model(content)
        foreign = archives.get_untrusted_types(data=content)
        if not foreign:
            members = archives.loads(content, trusted=[])
            metadata = json.loads(members["metadata"])
            kind, version = metadata["kind"], metadata["version"]
            if (kind, version) == (KIND, VERSION):
                return ModelArchive(metadata, dict(members["state"]), dict(members["space"]))
    except (*errors, ArtefactError) as error:
        raise ArtefactError(
            "the container: not a model of this software, or damaged: name a .skops file of `train`"
        ) from error
    if foreign:
        raise ArtefactError(
            f"the model holds {', '.join(foreign)}, which no model of ours does: do not trust it"
        )
    raise ArtefactError(
        f"the container: a {kind} of version {version}, and this software reads a {KIND} of "
        f"version {VERSION}: train it again"
    )


def pack_archive(archive: ModelArchive) -> bytes:
    """Return an archive's bytes, which differ each time because they contain the time."""
    from dppca.common.verification.model_classes import archives

    content: bytes = archives.dumps(
        {
            "metadata": json.dumps(archive.metadata),
            "state": archive.state,
            "space": archive.space,
        }
    )
    return content
