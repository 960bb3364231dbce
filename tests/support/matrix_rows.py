"""Layouts with any mix of attributes, and rows of them, for laws of matrix-laplace noise."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.kernel.schema.layout import ColumnKind, Layout

BITS = 10


def make_layout(
    attributes: list[str | int],
    *,
    weight: Fraction = Fraction(3, 4),
    targets: tuple[int, ...] = (),
    target_weight: int = 1,
    resolution_bits: int = BITS,
) -> Layout:
    """Return a layout; attributes are ``num``, ``bin``, ``mis``, or the size of a block."""
    kinds: list[ColumnKind] = []
    groups: list[int] = []
    for place, each in enumerate(attributes):
        if isinstance(each, int):
            own = [ColumnKind.INDICATOR] * each
        elif each == "mis":
            own = [ColumnKind.MISSING, ColumnKind.NUMERIC]
        else:
            own = [ColumnKind.NUMERIC if each == "num" else ColumnKind.BINARY]
        kinds += own
        groups += [place] * len(own)
    return Layout(
        tuple(kinds),
        tuple(groups),
        resolution_bits,
        int(weight * 2**resolution_bits),
        targets=targets,
        target_weight=target_weight,
    )


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Box layouts of one to six attributes, with and without targets."""
    attributes: list[str | int] = draw(
        st.lists(st.sampled_from(["num", "bin", "mis", 2, 3, 5]), min_size=1, max_size=6)
    )
    target_weight = draw(st.sampled_from([1, 2, 3]))
    places = st.sets(st.integers(0, len(attributes) - 1), min_size=1)
    return make_layout(
        attributes,
        weight=Fraction(draw(st.sampled_from([1, 3, 4, 6, 8])), 4),
        targets=() if target_weight == 1 else tuple(sorted(draw(places))),
        target_weight=target_weight,
    )


def coded_row(
    layout: Layout, rng: np.random.Generator, *, vertex: bool = True
) -> NDArray[np.int64]:
    """Return a row of the layout's integers; numbers at a bound, or anywhere: (p,)."""
    one = 2**layout.resolution_bits
    row = np.zeros(layout.n_columns, np.int64)
    for start, stop in layout.groups:
        if layout.kinds[start] is ColumnKind.INDICATOR:
            row[rng.integers(start, stop)] = one
            continue
        number = int(rng.choice([-one // 2, one // 2]))
        if layout.kinds[stop - 1] is ColumnKind.NUMERIC and not vertex:
            number = int(rng.integers(-one // 2, one // 2 + 1))
        if layout.kinds[start] is ColumnKind.MISSING and rng.random() < 0.5:
            row[start] = one // 2
        else:
            row[stop - 1] = number
    return row


def space_row(layout: Layout, row: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the vector u of a row of a box, in real units: (p + 1,)."""
    one = 2.0**layout.resolution_bits
    u = np.concatenate([[layout.scaled_weight], row]) / one
    for start, stop in layout.groups:
        if layout.kinds[start] is ColumnKind.INDICATOR:
            u[start + 1 : stop + 1] -= 1 / (stop - start)
        if layout.attribute_of[start] in layout.targets:
            u[start + 1 : stop + 1] *= layout.target_weight
    return u


def packed_row(layout: Layout, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what a row of a box adds to the sums and products of a release: (D,)."""
    i, j = layout.product_index
    products = row[i] * row[j] * layout.packed_product_weights
    return np.concatenate([layout.scaled_weight * row, products])
