"""Archives of models.

An archive is a zip file of skops: metadata as JSON, and arrays or machines of scikit-learn. Loading
it runs no code of the file's own, unlike a pickle. It holds three members:

* ``metadata``: labels, schema, target, method, settings, and the receipt of one that may leave;
* ``state``: the few fitted values that predictions need;
* ``space``: the study's components, on which rows are projected.
"""

from __future__ import annotations

import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dppca.common.attestation.archives import Archive, read_archive, require_model
from dppca.common.errors import AlteredError, ArtefactError

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
"""What readers of archives and arrays raise on files that are damaged or made by hand."""


@dataclass(frozen=True, slots=True)
class ModelArchive:
    """What an archive holds; nothing but form is checked."""

    metadata: dict[str, Any]
    state: dict[str, Any]
    space: dict[str, Any]


def open_archive(content: bytes) -> ModelArchive:
    """Read an archive.

    Raises
    ------
    ArtefactError
        Not an archive of a model, or with classes other than scikit-learn's and NumPy's.
    """
    import skops.io
    from skops.io.exceptions import UnsupportedTypeException, UntrustedTypesFoundException

    errors = (*ARCHIVE_ERRORS, UnsupportedTypeException, UntrustedTypesFoundException)
    try:
        require_model(content)
        foreign = skops.io.get_untrusted_types(data=content)
        if not foreign:
            members = skops.io.loads(content, trusted=[])
            metadata = json.loads(members["metadata"])
            kind, version = metadata["kind"], metadata["version"]
            if (kind, version) == (KIND, VERSION):
                return ModelArchive(metadata, dict(members["state"]), dict(members["space"]))
    except (*errors, ArtefactError) as error:
        raise ArtefactError("the container: not a model of this software, or damaged") from error
    if foreign:
        raise ArtefactError(
            f"the model holds {', '.join(foreign)}, which no model of ours does: do not trust it"
        )
    raise ArtefactError(
        f"the container: a {kind} of version {version}, and this software reads a {KIND} of "
        f"version {VERSION}: train it again"
    )


def pack_archive(archive: ModelArchive) -> bytes:
    """An archive's bytes. They are not the same twice: they carry the time."""
    import skops.io

    content: bytes = skops.io.dumps(
        {
            "metadata": json.dumps(archive.metadata),
            "state": archive.state,
            "space": archive.space,
        }
    )
    return content


def read_comment(content: bytes) -> bytes | None:
    """Comment of a zip archive, once every member of it has its checksum.

    Raises
    ------
    AlteredError
        Names the member that is not what its checksum says.
    ArtefactError
        It is no archive.
    """
    archive = read_archive(content)
    for name in archive.damaged():
        title = _titles(archive).get(name, name.removesuffix(".npy"))
        raise AlteredError(f"array {title}: it does not have its checksum")
    return archive.comment or None


def _titles(archive: Archive) -> dict[str, str]:
    """What the members of a skops archive hold; empty for other archives."""
    try:
        return _name_arrays(json.loads(bytes(archive.members["schema.json"]))["content"])
    except ARCHIVE_ERRORS:
        return {}


def _name_arrays(content: Mapping[str, Any]) -> dict[str, str]:
    """Names of arrays by the members of the archive that hold them, at any depth."""
    names: dict[str, str] = {}
    for name, node in content.items():
        if isinstance(node, dict) and "file" in node:
            names[node["file"]] = name
        elif isinstance(node, dict) and isinstance(node.get("content"), dict):
            names |= _name_arrays(node["content"])
    return names
