"""What the experiments run on, as values: rows for a machine, and coded rows for a study.

`PaperTable` is what the support vector machines take: numbers, as the papers feed them, and a
public bound on the norm of a row, by which `PaperTable.in_ball` brings them into the unit ball, as
the proofs need them. `Coded` is what PPCA-DP-MH takes: a schema and rows in its integers.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.studies import PublicData, coded_rows, parse_rows, value_columns
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Numeric, Schema
from dppca.common.papers.unit_ball import UnitBall


@dataclass(frozen=True, slots=True)
class PaperSource:
    """Where a table comes from: a name, or a file with its label column."""

    name: str
    path: Path | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class PaperTable:
    """Rows for a support vector machine.

    Attributes
    ----------
    rows
        Float64, shape (n, d).
    labels
        Shape (n,).
    row_norm
        Bound on the norm of a row.
    """

    name: str
    rows: NDArray[np.float64]
    labels: NDArray[Any]
    row_norm: float

    def in_ball(self) -> PaperTable:
        """The rows divided by their bound: in the unit ball."""
        inside = UnitBall(scale=self.row_norm).fit_transform(self.rows)
        return replace(self, rows=inside, row_norm=1.0)


@dataclass(frozen=True, slots=True)
class PaperTarget:
    """What is predicted from the other attributes.

    Attributes
    ----------
    attribute
        Its labels are the classes, unless ``positive`` names those of a categorical that make the
        second of two classes.
    dropped
        Attributes that would give it away.
    """

    name: str
    attribute: str
    positive: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def labels(
        self,
        schema: Schema,
        coded: NDArray[np.float64],
        *,
        released_mean: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """Classes of coded rows, shape (n_rows,).

        Two classes are cut in the middle of their codes, or, of synthetic rows, where the released
        mean is kept; of more classes the largest indicator decides.
        """
        start, stop = schema.layout.groups[schema.find_index(self.attribute)]
        if stop - start > 1 and not self.positive:
            return np.asarray(coded[:, start:stop].argmax(axis=1), np.int64)
        names = [f"{self.attribute}={label}" for label in self.positive] or [self.attribute]
        columns = [schema.column_names.index(name) for name in names]
        score = coded[:, columns].sum(axis=1)
        middle = 0.5 if self.positive else 0.0
        if released_mean is None:
            return np.asarray(score > middle, np.int64)
        share = np.clip(released_mean[columns].sum() + 0.5 - middle, 0.0, 1.0)
        return np.asarray(score > np.quantile(score, 1.0 - share), np.int64)

    def features(self, schema: Schema, coded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns of all other attributes."""
        gone: list[int] = []
        for name in (self.attribute, *self.dropped):
            gone += range(*schema.layout.groups[schema.find_index(name)])
        return np.delete(coded, gone, axis=1)


@dataclass(frozen=True, slots=True)
class BitTarget(PaperTarget):
    """A target whose labels stand in bits, columns called ``attribute.0``, ``attribute.1``, ...

    ``codes`` are those labels, by the number that their bits write, that make the second class.
    """

    codes: tuple[int, ...] = ()

    def labels(
        self,
        schema: Schema,
        coded: NDArray[np.float64],
        *,
        released_mean: NDArray[np.float64] | None = None,  # noqa: ARG002 - bits are cut in the middle
    ) -> NDArray[np.int64]:
        """Classes of coded rows, shape (n_rows,); a bit is 1 above the middle of its codes."""
        bits = coded[:, self._columns(schema, self.attribute)] > 0
        number = bits @ (1 << np.arange(bits.shape[1]))
        return np.isin(number, self.codes).astype(np.int64)

    def features(self, schema: Schema, coded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Columns of all other attributes."""
        gone = [
            each for name in (self.attribute, *self.dropped) for each in self._columns(schema, name)
        ]
        return np.delete(coded, gone, axis=1)

    @staticmethod
    def _columns(schema: Schema, attribute: str) -> list[int]:
        """Places of its bits, the lowest first."""
        names = schema.column_names
        return [place for place, name in enumerate(names) if name.rpartition(".")[0] == attribute]


@dataclass(frozen=True, slots=True)
class Coded:
    """Rows for a study.

    Attributes
    ----------
    values
        Float64, shape (n, attributes): numbers, and codes of labels.
    coded
        The same rows as a study codes them, in real units: float64, shape (n, p).
    contribution_rate
        Contribution rate of the components kept.
    """

    name: str
    schema: Schema
    values: NDArray[np.float64]
    coded: NDArray[np.float64]
    targets: tuple[PaperTarget, ...]
    contribution_rate: float

    def recoded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows in the form of ``values`` in the form of ``coded``, shape (n, p)."""
        return coded_rows(self.schema, value_columns(self.schema, values))

    def target(self, name: str) -> PaperTarget:
        """The target called so."""
        return next(target for target in self.targets if target.name == name)


def coded_from(data: PublicData, targets: tuple[PaperTarget, ...]) -> Coded:
    """Text fields as a study codes them; every field must be a value of its attribute."""
    schema = data.schema()
    columns = parse_rows(schema, data.rows)
    for place, attribute in enumerate(schema.attributes):
        if isinstance(attribute, Numeric):  # a study's own public rule
            columns[place] = columns[place].clip(*attribute.bounds)
    values = np.column_stack(columns).astype(np.float64)
    return Coded(
        data.name, schema, values, coded_rows(schema, columns), targets, data.contribution_rate
    )


def ranged(name: str, rows: NDArray[np.float64], labels: Any) -> PaperTable:
    """Columns brought into [-1, 1] by their own range; constant ones to 0.

    Raises
    ------
    DataError
        There are no rows or no columns, or a number is missing or infinite.
    """
    if not rows.size:
        raise DataError(f"{name} has no rows, or no column beside the label")
    if not np.isfinite(rows).all():
        raise DataError(
            f"{name} holds NaN or infinity: drop those rows, or put public numbers there"
        )
    lowest, highest = rows.min(axis=0), rows.max(axis=0)
    width = np.where(highest > lowest, highest - lowest, 1.0)
    scaled = np.where(highest > lowest, 2 * (rows - lowest) / width - 1, 0.0)
    return PaperTable(name, scaled, labels, rows.shape[1] ** 0.5)


def read_libsvm(path: Path, *, columns: int) -> tuple[NDArray[np.float64], Any]:
    """Rows (n, d) and labels (n,) of a gzipped LIBSVM file.

    Raises
    ------
    DataError
        It cannot be read, or is not of that format.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        with gzip.open(path) as stream:
            rows, labels = load_svmlight_file(stream, n_features=columns)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(
            f"{path.name} cannot be read as a libsvm file: LABEL INDEX:VALUE ... on each line"
        ) from error
    return np.asarray(rows.toarray(), np.float64), labels
