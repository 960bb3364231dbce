"""Writer of the bill of materials of the deployed software, CycloneDX 1.6 (ECMA-424) in JSON.

``python -m tools.sbom FILE [PYTHON]``. It gives `cyclonedx-py` the pins of
`requirements/runtime.lock` that a Python such as ``3.12`` needs on Linux: otherwise both versions
of a package would be listed that is pinned once for each Python. The same lock gives the same
bytes, checked with the schema.
"""

import os
import subprocess
import sys
from pathlib import Path

from tools.lock import ROOT, read_pins

_ARGUMENTS = (
    *("requirements", "-", "--pyproject", "pyproject.toml", "--sv", "1.6"),
    *("--output-reproducible", "--validate"),
)


def document(python: str, *options: str) -> str:
    """Make the JSON text; raise `subprocess.CalledProcessError` if it breaks the schema."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", *_ARGUMENTS, *options],
        input="\n".join(read_pins("runtime", python)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"},
    )
    return process.stdout


def main(output: str, python: str = "{}.{}".format(*sys.version_info)) -> None:
    """Write the document to a file."""
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(python))
    sys.stdout.write(f"{path}: the packages of runtime.lock for Python {python}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
