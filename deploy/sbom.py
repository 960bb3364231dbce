"""Writes what the deployed software is made of, as CycloneDX 1.6 (ECMA-424) in JSON.

``python -m deploy.sbom --output FILE [--python 3.11]``. From `requirements/runtime.lock`: each
package for a Python on Linux, with its version, its package URL and the SHA-256 of every file that
may have been installed. The same lock gives the same bytes: no time, and a serial number from the
lock's digest. The document is compared with the specification's schema before it is written.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tomllib
from pathlib import Path
from uuid import UUID, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from deploy.lock import FOLDER, ROOT
from deploy.pins import Pin, environment_of, read_pins

_NAMESPACE = UUID("5f0a4a8e-0f0c-4c39-9d3e-6b2f0f4f5a01")
LOCK = FOLDER / "runtime.lock"


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m deploy.sbom", description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--python", default="{}.{}".format(*sys.version_info))
    given = parser.parse_args()
    text = document(given.python)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(text)
    sys.stdout.write(f"{given.output}: the packages of {LOCK.name} for Python {given.python}\n")
    return 0


def document(python: str) -> str:
    """The JSON text for a Python such as ``3.12``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    environment = environment_of(python)
    lock = LOCK.read_bytes()
    parts = [_component(pin) for pin in read_pins(lock.decode()) if pin.applies(environment)]
    whole = Component(
        type=ComponentType.APPLICATION,
        name=project["name"],
        version=project["version"],
        description=project["description"],
        bom_ref=f"{project['name']}=={project['version']}",
        purl=PackageURL("pypi", name=project["name"], version=project["version"]),
    )
    bom = Bom(
        components=parts,
        serial_number=uuid5(_NAMESPACE, f"{hashlib.sha256(lock).hexdigest()} {python}"),
        metadata=BomMetaData(component=whole),
    )
    bom.metadata.timestamp = None  # type: ignore[assignment] # optional in the specification
    bom.register_dependency(whole, parts)
    text = JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault is not None:
        message = f"the document does not conform to CycloneDX 1.6: {fault}"
        raise ValueError(message)
    return text


def _component(pin: Pin) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        bom_ref=f"{pin.name}=={pin.version}",
        purl=PackageURL("pypi", name=pin.name, version=pin.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in pin.sha256],
    )


if __name__ == "__main__":
    raise SystemExit(main())
