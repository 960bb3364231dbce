"""Loadings: which attributes a component is made of.

A component is a direction in the space of coded rows, of length 1; its entry for a coded column is
the column's loading. Loadings compare with each other as coded values do: a numeric counts in
widths between its bounds (unit-ball rows: in the units of the ball), a binary from its first label
to its second, a categorical by the indicator of each label, a numeric with ``products: bins`` by
that of each bin. The sign of a whole component means
nothing; two loadings of one component with the same sign rise together.

Everything here follows from a released result and is `released` itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.documents import ComponentFigures
from dppca.common.names import one_line
from dppca.common.schema import Binary, Categorical, Schema

MOST_LOADINGS = 8
"""Loadings of a component in a document; the others are smaller, and in the result file."""
_MOST_PRINTED = 10


@dataclass(frozen=True, slots=True)
class Loading:
    """One entry of a component.

    Attributes
    ----------
    label
        The label towards which a positive loading points; None for a numeric.
    value
        In [-1, 1].
    """

    attribute: str
    label: str | None
    value: float

    @property
    def name(self) -> str:
        """Attribute, and label where there is one."""
        return self.attribute if self.label is None else f"{self.attribute}={self.label}"


def column_labels(schema: Schema) -> tuple[tuple[str, str | None], ...]:
    """Attribute of each coded column, and the label that its larger value stands for, if any."""
    columns: list[tuple[str, str | None]] = []
    binned = schema.products_of_bins
    for attribute, cells in zip(schema.attributes, schema.cells, strict=True):
        if isinstance(attribute, Categorical):
            columns += [(attribute.name, label) for label in attribute.labels]
        elif attribute.name in binned and cells is not None:
            columns += [(attribute.name, label) for label in cells.names]
        else:
            label = attribute.labels[1] if isinstance(attribute, Binary) else None
            columns.append((attribute.name, label))
    return tuple(columns)


def largest_loadings(
    schema: Schema, vectors: NDArray[np.float64], *, most: int = MOST_LOADINGS
) -> tuple[tuple[Loading, ...], ...]:
    """The largest loadings of each component by magnitude, descending; those of 0 are left out.

    Parameters
    ----------
    vectors
        Components as rows, shape (k, p).
    most
        How many loadings of one component.
    """
    columns = column_labels(schema)
    return tuple(
        tuple(
            Loading(columns[index][0], columns[index][1], float(vector[index]))
            for index in np.argsort(-np.abs(vector), kind="stable")[:most]
            if vector[index] != 0
        )
        for vector in vectors
    )


def component_figures(
    schema: Schema,
    vectors: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    noise_edge: float,
) -> list[ComponentFigures]:
    """Each kept component as documents hold it.

    Parameters
    ----------
    vectors
        Shape (k, p), rows are components.
    eigenvalues
        Shape (k,) or longer, descending.
    noise_edge
        In the units of the eigenvalues.
    """
    return [
        {
            "eigenvalue": float(value),
            "above_noise": bool(value > noise_edge),
            "loadings": [
                {"attribute": each.attribute, "label": each.label, "loading": each.value}
                for each in loadings
            ],
        }
        for value, loadings in zip(eigenvalues, largest_loadings(schema, vectors), strict=False)
    ]


def component_lines(figures: list[ComponentFigures]) -> list[str]:
    """The components for people: the first ten, each with its largest loadings, one to a line."""
    lines: list[str] = []
    for number, component in enumerate(figures[:_MOST_PRINTED], start=1):
        beside = "" if component["above_noise"] else ", NOT above the noise edge"
        lines.append(f"component {number}: eigenvalue {component['eigenvalue']:.4g}{beside}")
        lines += [
            f"  {each['loading']:+.3f}  "
            + one_line(Loading(each["attribute"], each["label"], each["loading"]).name)
            for each in component["loadings"]
        ]
    if len(figures) > _MOST_PRINTED:
        lines.append(f"and {len(figures) - _MOST_PRINTED} more components")
    return lines
