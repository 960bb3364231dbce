"""The kernel as a zip of our own modules, which an engine sends to its workers.

What is in it follows from the code: every module of DPPCA that `kernel` imports, directly or not.
Nothing else of DPPCA goes to a worker: no ledger, no noise on its way out, no command, no network.
The SHA-256 of these modules is the kernel's name. Every process of a worker computes it of what it
has *loaded*, so that an older kernel, or another DPPCA that is installed there, is noticed.

The file must not be called ``.whl``, which engines take for something to install.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dppca.common.files import write_file

KERNEL: Final = "dppca.owner.engines.kernel"
_ROOT: Final = "dppca"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def digest_kernel() -> str:
    """SHA-256, hexadecimal, of the kernel's modules in this process."""
    digest = hashlib.sha256()
    for path, source in sorted(kernel_sources().items()):
        content = source.encode()
        digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def kernel_sources() -> dict[str, str]:
    """Source of every module that the kernel is made of, by its path in the zip."""
    sources: dict[str, str] = {}
    waiting, seen = [KERNEL], {KERNEL}
    while waiting:
        name = waiting.pop()
        loader, is_package = _loader(name)
        source: str = loader.get_source(name)
        sources[name.replace(".", "/") + ("/__init__.py" if is_package else ".py")] = source
        for other in _imports(name, source):
            if other not in seen and _is_module(other):
                seen.add(other)
                waiting.append(other)
    return sources


def build_kernel(folder: Path) -> Path:
    """Write the zip into a folder, under a name of its own; the same bytes for the same code."""
    path = folder / f"dppca-kernel-{digest_kernel()[:16]}.zip"
    write_file(path, pack_sources(kernel_sources()), durable=False)
    return path


def pack_sources(sources: Mapping[str, str]) -> bytes:
    """A zip of modules, the same bytes for the same ones."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, source in sorted(sources.items()):
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), source, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _loader(name: str) -> tuple[Any, bool]:
    """What has loaded a module, or would; and whether it is a package."""
    loaded: ModuleType | None = sys.modules.get(name)
    spec = find_spec(name) if loaded is None else loaded.__spec__
    if spec is None:
        raise ImportError(name=name)
    return spec.loader, spec.submodule_search_locations is not None


def _is_module(name: str) -> bool:
    try:
        return name in sys.modules or find_spec(name) is not None
    except ModuleNotFoundError:  # a name of a module, and no module below it
        return False


def _imports(name: str, source: str) -> Iterator[str]:
    """Names of ours that a module imports and that may be modules, with the packages above them."""
    yield from _above(name)
    for node in ast.walk(_without_types(ast.parse(source))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for each in names:
            if each.split(".")[0] == _ROOT:
                yield each
                yield from _above(each)


def _above(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


def _without_types(tree: ast.Module) -> ast.Module:
    """Without what is imported for the type checker alone."""
    body = [
        node
        for node in tree.body
        if not (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        )
    ]
    return ast.Module(body, tree.type_ignores)
