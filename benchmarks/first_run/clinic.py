"""A study of three clinics with twelve attributes, and its rows: made up, the same each time."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from benchmarks.releases import state_privacy

NAME = "clinics"
OWNERS = ("north", "east", "south")
TARGET = "smoker"
NUMERICS = {
    "age": (18, 90),
    "weight": (40, 160),
    "height": (140, 210),
    "pressure": (80, 220),
    "pulse": (40, 180),
    "visits": (0, 40),
    "sleep": (0, 14),
}
LABELS = {
    "pain": ("none", "some", "much"),
    "work": ("none", "part", "full"),
    "region": ("coast", "hills", "plain", "town"),
}
BINARIES = ("smoker", "diabetes")


def study_document() -> dict[str, Any]:
    """The study, as its YAML file holds it."""
    attributes: list[dict[str, Any]] = [
        {"name": name, "type": "numeric", "lower": lower, "upper": upper}
        for name, (lower, upper) in NUMERICS.items()
    ]
    attributes += [{"name": name, "type": "binary", "values": ["no", "yes"]} for name in BINARIES]
    attributes += [
        {"name": name, "type": "categorical", "categories": list(labels)}
        for name, labels in LABELS.items()
    ]
    return {
        "name": NAME,
        "purpose": "Measure what a first user waits for.",
        "contact": "whoever runs this benchmark",
        "approval": "none needed: the rows are made up",
        "owners": list(OWNERS),
        "privacy": state_privacy("1.0", None),
        "components": {"contribution_rate": 0.85},
        "schema": {"max_rows_per_person": 1, "attributes": attributes},
    }


def write_files(folder: Path, n_rows: int) -> tuple[Path, dict[str, Path]]:
    """Write the study, and a CSV file of so many rows for each owner; return where they are."""
    study = folder / "study.yaml"
    study.write_text(yaml.safe_dump(study_document(), sort_keys=False))
    files = {name: folder / f"{name}.csv" for name in OWNERS}
    for seed, path in enumerate(files.values()):
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*NUMERICS, *BINARIES, *LABELS])
            writer.writerows(_make_rows(np.random.default_rng(seed), n_rows))
    return study, files


def _make_rows(rng: np.random.Generator, n_rows: int) -> list[tuple[Any, ...]]:
    """Rows of two hidden factors and noise."""
    factors = rng.normal(size=(n_rows, 2))

    def mixed() -> NDArray[np.float64]:
        drawn: NDArray[np.float64] = factors @ rng.normal(size=2) + rng.normal(size=n_rows)
        return drawn

    columns: list[Any] = []
    for lower, upper in NUMERICS.values():
        middle, spread = (lower + upper) / 2, (upper - lower) / 8
        columns.append(np.clip(middle + spread * mixed(), lower, upper).round(1))
    columns += [np.where(mixed() > 0.5, "yes", "no") for _ in BINARIES]
    for labels in LABELS.values():
        ranks = np.digitize(mixed(), np.linspace(-1.5, 1.5, len(labels) - 1))
        columns.append(np.array(labels)[ranks])
    return list(zip(*columns, strict=True))
