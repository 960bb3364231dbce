"""What a lock file in `requirements/` says: pure reading, no network."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Pin:
    """One package at one version.

    Attributes
    ----------
    marker
        Where it is needed; everywhere where None.
    sha256
        Of each of its files, in hexadecimal.
    """

    name: str
    version: str
    marker: Marker | None
    sha256: tuple[str, ...]

    def applies(self, environment: dict[str, str]) -> bool:
        """Whether it is needed on a Python and system; see `environment_of`."""
        return self.marker is None or self.marker.evaluate(environment)


def read_pins(text: str) -> list[Pin]:
    """Every pin of a lock file, in its order.

    Raises
    ------
    ValueError
        A line is anything but a comment, or ``NAME==VERSION [; MARKER]`` with SHA-256 digests: an
        option, an address, a file, a pin without a digest.
    """
    return [_pin(line) for line in _logical(text.splitlines()) if not line.startswith("#")]


def environment_of(python: str) -> dict[str, str]:
    """Values for markers: CPython of a version such as ``3.12`` on Linux on x86-64."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
        "extra": "",
    }


def _logical(lines: Iterable[str]) -> list[str]:
    joined = "\n".join(lines).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip()]


def _pin(line: str) -> Pin:
    wanted, *options = re.split(r"\s+(?=--)", line)
    digests = [_DIGEST.fullmatch(option.strip()) for option in options]
    try:
        requirement = Requirement(wanted)
    except InvalidRequirement as error:
        message = f"{wanted!r} is no pin"
        raise ValueError(message) from error
    exact = re.fullmatch(r"==([^,*]+)", str(requirement.specifier))
    if requirement.url or requirement.extras or exact is None or not digests or None in digests:
        message = f"{requirement.name} is not pinned by version and SHA-256 alone"
        raise ValueError(message)
    return Pin(
        canonicalize_name(requirement.name),
        exact.group(1),
        requirement.marker,
        tuple(found.group(1) for found in digests if found is not None),
    )
