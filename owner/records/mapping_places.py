"""Where a site states how its columns become a study's attributes; nothing is read here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OneHot = Mapping[str, Mapping[str, str]]
"""For each attribute, the label that each of its one-hot columns stands for."""


@dataclass(frozen=True, slots=True)
class MappingPlace:
    """Where a data set's mapping is stated: a file, ``one_hot`` of the policy, or both."""

    path: Path | None = None
    one_hot: OneHot = field(default_factory=dict)
