"""Generator of `common/wire` from the one .proto, or check: ``python -m tools.wire [--check]``.

The modules are tracked, because a site needs them; their types (``.pyi``) are for mypy only, and
are made when it runs.

The mapping ``-Icommon/wire=proto/dppca/v1`` makes protoc believe that the file lies in the folder
of its Python modules, so generated imports are right without patching.
"""

import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("federation_pb2.py", "federation_pb2_grpc.py")
_PLUGINS = ("protoc-gen-mypy", "protoc-gen-mypy_grpc")


def generate(target: Path) -> None:
    """Write the generated modules below ``target``; raise `RuntimeError` if protoc fails."""
    from grpc_tools import protoc  # type: ignore[import-untyped] # a development tool

    arguments = [
        "protoc",
        f"-Idppca/common/wire={ROOT / 'proto/dppca/v1'}",
        f"-I{files('grpc_tools') / '_proto'}",
        # protoc looks for plugins on the PATH; ours lie beside the interpreter that runs this.
        *(f"--plugin={Path(sys.executable).with_name(name)}" for name in _PLUGINS),
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out={target}",
        f"--mypy_grpc_out={target}",
        "dppca/common/wire/federation.proto",
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc failed")


def drift() -> list[str]:
    """Return the modules that differ from the .proto's current output."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        return [
            name
            for name in GENERATED
            if not (ROOT / "common/wire" / name).exists()
            or (ROOT / "common/wire" / name).read_bytes()
            != (fresh / "dppca/common/wire" / name).read_bytes()
        ]


def write_types() -> None:
    """Write the type stubs of the modules for mypy."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        for path in Path(folder).rglob("*.pyi"):
            shutil.copy(path, ROOT / "common/wire")


def main() -> int:
    """Generate or check the modules; return the exit code."""
    if sys.argv[1:] == ["--check"]:
        write_types()
        changed = drift()
        for name in changed:
            sys.stderr.write(f"common/wire/{name} differs from the .proto: run make wire\n")
        return 1 if changed else 0
    generate(ROOT)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
