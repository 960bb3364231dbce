"""Loadings: the attributes that make up a component.

A component is a direction of length 1 in the space of coded rows; its entry for a coded column is
the column's loading. Loadings are compared in coded units: a numeric counts in widths between its
bounds (unit-ball rows: in the units of the ball), a binary from its first label to its second, a
categorical by the indicator of each label, a numeric with ``products: bins`` by the indicator of
each bin. The sign of a whole component has no meaning; two loadings of one component with the same
sign rise together.

All values follow from a released result and are `released` themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.schema import Binary, Categorical, Numeric, Schema

MOST_LOADINGS = 8
"""Loadings of a component in a document; the result file also has the smaller ones."""
LARGE = 0.2
"""A loading above it, by magnitude, is large: pages show it first, and name it in a sentence."""
_MOST_PRINTED = 10  # of a component

Mixtures = Sequence[tuple[int, ...]]
"""For each component the numbers, from 1, of those that it may be any mixture of; else none."""


@dataclass(frozen=True, slots=True)
class Loading:
    """One entry of a component."""

    attribute: Annotated[str, "name of the attribute; `NAME is missing` for its indicator"]
    label: Annotated[str | None, "label towards which a positive one points; null for a numeric"]
    loading: Annotated[float, "entry of the component, in [-1, 1]"]

    @property
    def name(self) -> str:
        """Attribute and, if there is one, its label."""
        return self.attribute if self.label is None else f"{self.attribute}={self.label}"

    @property
    def is_large(self) -> bool:
        """Return True for a loading above `LARGE`."""
        return abs(self.loading) > LARGE


@dataclass(frozen=True, slots=True)
class KeptComponent:
    """A kept component and its largest loadings."""

    eigenvalue: Annotated[float, "its variance, noise included, squared coded units"]
    share: Annotated[float, "its part of all positive variances, noise included"]
    above_noise: Annotated[bool, "whether it is above what noise alone reaches"]
    loadings: Annotated[tuple[Loading, ...], "its eight largest by magnitude, descending"]
    mixed: Annotated[
        tuple[int, ...],
        "numbers, from 1, of the components that cannot be told apart, its own among them: any "
        "mixture of these is as good, so its loadings say nothing; empty if it stands apart",
    ] = ()

    @property
    def readable(self) -> bool:
        """Return True if its loadings say something."""
        return self.above_noise and not self.mixed

    @property
    def meaning(self) -> str:
        """Meaning of its large loadings, in words; or why they have none."""
        if not self.above_noise:
            return "noise alone can make it, so its loadings say nothing."
        if self.mixed:
            return f"{mixture_text(self.mixed)}, so its loadings say nothing."
        large = [each for each in self.loadings if each.is_large]
        if not large:
            return f"no loading is above {LARGE}; many columns have a small part in it."
        rising = [each.name for each in large if each.loading > 0]
        falling = [each.name for each in large if each.loading < 0]
        if not rising:  # the sign of a whole component has no meaning
            rising, falling = falling, rising
        if len(large) == 1:
            return f"{rising[0]} varies, and no other loading is above {LARGE}."
        first = f"{_listed(rising)} rise together" if len(rising) > 1 else f"{rising[0]} rises"
        second = f"; {_listed(falling)} fall{'s' if len(falling) == 1 else ''}" if falling else ""
        return f"{first}{second}."


def mixture_text(mixed: tuple[int, ...]) -> str:
    """Say that components cannot be told apart, by their numbers."""
    which = _listed([str(each) for each in mixed])
    return f"components {which} cannot be told apart: any mixture of them is as good"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def column_labels(schema: Schema) -> tuple[tuple[str, str | None], ...]:
    """Return each coded column's attribute and the label of its larger value, if it has labels."""
    columns: list[tuple[str, str | None]] = []
    binned = schema.products_of_bins
    for attribute, cells in zip(schema.attributes, schema.cells, strict=True):
        if isinstance(attribute, Categorical):
            columns += [(attribute.name, label) for label in attribute.labels]
        elif attribute.name in binned and cells is not None:
            columns += [(attribute.name, label) for label in cells.names]
        else:
            if isinstance(attribute, Numeric) and attribute.missing == "indicator":
                columns.append((f"{attribute.name} is missing", None))
            label = attribute.labels[1] if isinstance(attribute, Binary) else None
            columns.append((attribute.name, label))
    return tuple(columns)


def largest_loadings(
    schema: Schema, vectors: NDArray[np.float64], *, most: int = MOST_LOADINGS
) -> tuple[tuple[Loading, ...], ...]:
    """Return each component's ``most`` largest loadings by magnitude, descending, without zeros.

    ``vectors`` has the components as rows, shape (k, p).
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


def component_lines(components: Sequence[KeptComponent], *, details: bool) -> list[str]:
    """Return text lines: the first ten components, each with its largest loadings.

    Those that noise alone can make are counted; ``details`` shows them, too.
    """
    lines: list[str] = []
    shown = [each for each in components if details or each.above_noise]
    for number, component in enumerate(shown[:_MOST_PRINTED], start=1):
        beside = "" if component.above_noise else ", NOT above the noise edge"
        lines.append(f"component {number}: eigenvalue {component.eigenvalue:.4g}{beside}")
        if component.mixed and component.above_noise:
            lines.append(f"  {mixture_text(component.mixed)}")
        if details or not component.mixed:
            lines += [
                f"  {each.loading:+.3f}  {one_line(each.name)}" for each in component.loadings
            ]
    if len(shown) > _MOST_PRINTED:
        lines.append(f"and {len(shown) - _MOST_PRINTED} more components")
    if len(shown) < len(components):
        lines.append(
            f"and {len(components) - len(shown)} that noise alone can make (--details shows them)"
        )
    return lines
