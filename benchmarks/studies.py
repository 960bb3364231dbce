"""Public data sets as studies: ``python -m benchmarks.studies nltcs|adult``.

Makes one CSV and one study file of a named data set and hands them to ``dppca-simulate run``: real
processes, real mutual TLS, noise from the operating system. The data sets lie in the folder that
``DPPCA_DATA`` names.

NLTCS
    National Long Term Care Survey, 21,574 people, 16 binary disabilities; all three files of the
    split by Lowd and Davis together. Targets: ``outside``, ``money``.
Adult
    Census income of 1994, 45,222 people without missing fields: 6 numerics, 2 binaries (sex,
    income), 7 categoricals, 104 coded columns. Target: ``income``.

No bound is computed from rows. Adult's are those of the survey: age 17 (the extract's condition
AAGE > 16) to the top code 90; education in 16 steps; hours 1 (HRSWK > 0) to the two-digit 99;
capital gain to 50,000, where the income classes meet, so that clipping a gain changes no class;
capital loss to 5,000, a round number above the 3,000 dollars that a tax return could set off in a
year; the final weight, a number of people, to 1,000,000.
``Never-worked`` is not a category: anybody who never worked has no occupation, so no complete row.
"""

import csv
import gzip
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from benchmarks.releases import BITS, state_privacy
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Column, Numeric, Schema, encode
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.shell.console import run

ROOT = Path(__file__).resolve().parent.parent

NLTCS_COLUMNS = (
    *("telephoning", "medicine", "money", "traveling", "outside", "grocery", "cooking", "laundry"),
    *("light_housework", "heavy_housework", "toilet", "bathing", "dressing", "inside", "bed"),
    "eating",
)

ADULT_NUMERIC = {
    "age": (17, 90),
    "fnlwgt": (0, 1_000_000),
    "education_num": (1, 16),
    "capital_gain": (0, 50_000),
    "capital_loss": (0, 5_000),
    "hours_per_week": (1, 99),
}
ADULT_BINARY = {"sex": ("Female", "Male"), "income": ("<=50K", ">50K")}
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status"),
    *("occupation", "relationship", "race", "sex", "capital_gain", "capital_loss"),
    *("hours_per_week", "native_country", "income"),
)
_IMPOSSIBLE = {"Never-worked"}


@dataclass(frozen=True, slots=True)
class PublicData:
    """A data set as a study takes it.

    Attributes
    ----------
    attributes
        As in a study file's schema.
    rows
        Text fields in the order of the attributes.
    contribution_rate
        The rule for the number of components that published experiments use.
    target
        What is predicted unless said otherwise.
    """

    name: str
    attributes: list[dict[str, Any]]
    rows: list[list[str]]
    contribution_rate: float
    target: str

    def schema(self, *, resolution_bits: int = BITS) -> Schema:
        """The attributes on a grid."""
        grid = {"resolution_bits": resolution_bits, "max_rows_per_person": 1}
        return Schema.from_document({**grid, "attributes": self.attributes})


def parse_rows(schema: Schema, rows: Sequence[Sequence[str]]) -> list[Column]:
    """Text fields as an owner's reader takes them: an array per attribute, numbers or codes."""
    fields = zip(*rows, strict=True)
    return [
        parse_column(attribute, pa.array(values))
        for attribute, values in zip(schema.attributes, fields, strict=True)
    ]


def value_columns(schema: Schema, values: NDArray[np.float64]) -> list[Column]:
    """Rows of numbers and of codes of labels, shape (n, attributes), as an array per attribute."""
    return [
        column if isinstance(attribute, Numeric) else column.astype(np.int32)
        for attribute, column in zip(schema.attributes, values.T.copy(), strict=True)
    ]


def coded_rows(schema: Schema, columns: Sequence[Column]) -> NDArray[np.float64]:
    """Coded rows in real units, shape (n, p)."""
    rows: NDArray[np.float64] = encode(schema, columns) / float(1 << schema.resolution_bits)
    return rows


def nltcs(folder: Path) -> PublicData:
    """The survey of disabilities; rows in the order of the three files."""
    rows: list[list[str]] = []
    for part in ("train", "valid", "test"):
        rows += _fields(folder / "nltcs" / f"nltcs.{part}.data.gz")
    attributes = [{"name": name, "type": "binary", "values": [0, 1]} for name in NLTCS_COLUMNS]
    return PublicData("nltcs", attributes, rows, 0.85, "outside")


def adult(folder: Path) -> PublicData:
    """The complete rows of both files; labels without the test file's full stop."""
    rows: list[list[str]] = []
    for part in ("data", "test"):
        rows += [
            [*fields[:-1], fields[-1].rstrip(".")]
            for fields in _fields(folder / "adult" / f"adult.{part}.gz")
            if len(fields) == len(ADULT_COLUMNS) and "?" not in fields
        ]
    categories = _adult_categories(folder / "adult" / "adult.names.gz")
    attributes = [_adult_attribute(name, categories) for name in ADULT_COLUMNS]
    return PublicData("adult", attributes, rows, 0.90, "income")


DATA_SETS = {"nltcs": nltcs, "adult": adult}


def study_document(
    data: PublicData, *, owners: int, epsilon: str, delta: str | None
) -> dict[str, Any]:
    """The study of a data set, as its YAML file holds it."""
    grid = {"resolution_bits": BITS, "max_rows_per_person": 1}
    return {
        "name": data.name,
        "owners": [f"owner-{number}" for number in range(1, owners + 1)],
        "privacy": state_privacy(epsilon, delta),
        "components": {"contribution_rate": data.contribution_rate},
        "schema": {**grid, "attributes": data.attributes},
    }


def write_csv(data: PublicData, path: Path) -> None:
    """One line of names, then the rows."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([attribute["name"] for attribute in data.attributes])
        writer.writerows(data.rows)


def data_folder() -> Path:
    """Folder of the named data sets: ``DPPCA_DATA``, else beside the checkout."""
    folder = Path(os.environ.get("DPPCA_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        raise DataError(f"no data sets at {folder}: set DPPCA_DATA to their folder")
    return folder


def _fields(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt") as file:
        for line in file:
            if line.strip():
                yield [field.strip() for field in line.split(",")]


def _adult_categories(path: Path) -> dict[str, list[str]]:
    categories = {}
    with gzip.open(path, "rt") as file:
        for line in file:
            name, colon, values = line.rstrip(". \n").partition(":")
            if colon and not line.startswith("|") and values.strip() != "continuous":
                labels = [value.strip() for value in values.split(",")]
                categories[name.replace("-", "_")] = [v for v in labels if v not in _IMPOSSIBLE]
    return categories


def _adult_attribute(name: str, categories: dict[str, list[str]]) -> dict[str, Any]:
    if name in ADULT_NUMERIC:
        lower, upper = ADULT_NUMERIC[name]
        return {"name": name, "type": "numeric", "lower": lower, "upper": upper}
    if name in ADULT_BINARY:
        return {"name": name, "type": "binary", "values": list(ADULT_BINARY[name])}
    return {"name": name, "type": "categorical", "categories": categories[name]}


@click.command()
@click.argument("name", type=click.Choice(sorted(DATA_SETS)))
@click.option("--epsilon", required=True, help="Decimal, each owner's.")
@click.option("--delta", help="For Gaussian noise; Laplace noise has none.")
@click.option("--owners", type=int, default=3, show_default=True)
@click.option("--seeds", type=int, default=3, show_default=True, help="Runs, with seeds 1, 2, ...")
@click.option("--target", help="Attribute to predict (outside; income).")
@click.option("--output", type=click.Path(path_type=Path), default=Path("results/studies"))
def cli(
    name: str,
    *,
    epsilon: str,
    delta: str | None,
    owners: int,
    seeds: int,
    target: str | None,
    output: Path,
) -> None:
    """Simulate a study on a public data set, once per seed: a report with means over them.

    \b
    Example:
      python -m benchmarks.studies nltcs --epsilon 1.0 --seeds 3 --target outside
    """
    data = DATA_SETS[name](data_folder())
    output.mkdir(parents=True, exist_ok=True)
    rows_path, study_path = output / f"{name}.csv", output / f"{name}.yaml"
    write_csv(data, rows_path)
    document = study_document(data, owners=owners, epsilon=epsilon, delta=delta)
    study_path.write_text(yaml.safe_dump(document, sort_keys=False))
    command = [sys.executable, "-m", "dppca.deploy.simulation.cli", "run", "--replace"]
    command += ["--study", str(study_path), "--data", str(rows_path), "--owners", str(owners)]
    command += ["--target", target or data.target, "--seed", "1", "--repeats", str(seeds)]
    command += ["--output", str(output / name)]
    raise SystemExit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    run(cli)
