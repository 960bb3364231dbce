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
    square_weight: int = 1,
    resolution_bits: int = BITS,
    counted: bool = False,
) -> Layout:
    """Return the layout of a box; attributes are ``num``, ``bin``, ``mis``, or a block's size.

    Its number of rows is secret if it is ``counted``.
    """
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
        square_weight=square_weight,
        count_unit=4**resolution_bits if counted else 0,
    )


def make_ball(columns: int, weight: Fraction | None, *, counted: bool = False) -> Layout:
    """Return the layout of rows in the unit ball; without sums if no weight is given."""
    kinds, own = (ColumnKind.NUMERIC,) * columns, tuple(range(columns))
    scaled, count = int((weight or 1) * 2**BITS), 4**BITS if counted and weight else 0
    summed = weight is not None
    return Layout(kinds, own, BITS, scaled, unit_ball=True, with_sums=summed, count_unit=count)


def layouts() -> st.SearchStrategy[Layout]:
    """Layouts of boxes and of the unit ball."""
    return st.one_of(boxes(), balls())


def balls() -> st.SearchStrategy[Layout]:
    """Layouts of rows in the unit ball, with and without sums."""
    weights = st.sampled_from([None, Fraction(1, 4), Fraction(1), Fraction(3, 2)])
    return st.builds(make_ball, st.integers(1, 6), weights, counted=st.booleans())


@st.composite
def boxes(draw: st.DrawFn) -> Layout:
    """Box layouts of one to six attributes, any of them with targets and weights of squares."""
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
        square_weight=draw(st.sampled_from([1, 2, 64])),
        counted=draw(st.booleans()),
    )


def coded_row(
    layout: Layout, rng: np.random.Generator, *, vertex: bool = True
) -> NDArray[np.int64]:
    """Return a row of the layout's integers; numbers (or its length) at a bound, or not: (p,)."""
    one = 2**layout.resolution_bits
    if layout.unit_ball:
        direction = rng.normal(size=layout.n_columns)
        length = one if vertex else one * rng.random()
        inside: NDArray[np.int64] = np.trunc(direction * length / np.linalg.norm(direction)).astype(
            np.int64
        )
        return inside
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
    """Return the vector u of a row, in real units: (p + 1,), or (p,) without sums."""
    front = [layout.scaled_weight] if layout.with_sums else []
    u = np.concatenate([front, row]) / 2.0**layout.resolution_bits
    for start, stop in layout.groups:
        if layout.kinds[start] is ColumnKind.INDICATOR:
            u[start + 1 : stop + 1] -= 1 / (stop - start)
        if layout.attribute_of[start] in layout.targets:
            u[start + 1 : stop + 1] *= layout.target_weight
    return u


def packed_row(layout: Layout, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what a row adds to the sums and products of a release, and to its number: (D,)."""
    i, j = layout.product_index
    products = row[i] * row[j] * layout.packed_product_weights
    sums = layout.scaled_weight * row[: layout.n_sums]
    return np.concatenate([sums, products, [layout.count_unit] * layout.with_count])
