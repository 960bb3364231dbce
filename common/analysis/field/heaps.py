"""Numerics whose schema cannot keep a heap, or spike: a number that many rows have (40 hours, say).

A bin of several whole numbers spreads its rows over all of them, so synthetic rows lose a heap
that lies in it, unless ``spikes`` gives that number a cell of its own. Where heaps are is known
about a subject, not from the rows; so the schema alone decides here.
"""

from collections.abc import Sequence
from math import ceil, floor

from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.attributes import Date, Numeric, Ordinal


def find_wide_bins(schema: Schema) -> tuple[str, ...]:
    """Names of numerics without spikes whose rows are counted in bins of several whole numbers."""
    return tuple(
        attribute.name
        for attribute, cells in zip(schema.attributes, schema.cells, strict=True)
        if isinstance(attribute, Numeric)
        and not isinstance(attribute, Date | Ordinal)
        and cells is not None
        and cells.integer
        and not cells.spikes
        and (attribute.histogram or attribute.products is not None)
        and bool((cells.ends[0] < cells.ends[1]).any())
    )


def wide_bins_lines(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the remark about these numerics of a schema, with an example; none without names."""
    if not names:
        return []
    first = schema.attributes[schema.find_index(names[0])]
    assert isinstance(first, Numeric)  # noqa: S101 - they have bins
    lower, upper = first.bounds
    example = round_number(ceil(lower), floor(upper))
    return [
        f"note: a bin of {', '.join(names)} holds several whole numbers. If it is known, without "
        f"looking at the rows, that very many rows have one certain number, such as {example} for "
        f"{names[0]}, synthetic rows keep that heap with spikes: [{example}]"
    ]


def round_number(lower: int, upper: int) -> int:
    """Return the roundest whole number between bounds; of several the one nearest the middle."""
    middle, step = (lower + upper) // 2, 1
    best = middle
    while abs(step) <= max(abs(lower), abs(upper)):
        step *= 10
        near = (middle + step // 2) // step * step
        if lower < near < upper:
            best = near
    return best
