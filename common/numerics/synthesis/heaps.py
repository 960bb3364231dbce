"""Numerics whose schema cannot keep a heap: a number that many rows have, such as 40 hours of work.

A bin of several whole numbers spreads its rows over all of them, so synthetic rows lose a heap
that lies in it, unless ``spikes`` gives that number a cell of its own. Where heaps are is known
about a subject, not from the rows; so the schema alone decides here.
"""

from collections.abc import Sequence

from dppca.common.schema import Schema
from dppca.common.schema.attributes import Date, Numeric, Ordinal


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


def wide_bins_lines(names: Sequence[str]) -> list[str]:
    """Return the lines of the warning about these numerics; none without names."""
    if not names:
        return []
    return [
        f"HEAPS ARE LOST: bins of {', '.join(names)} hold several whole numbers, and a number that "
        "many rows have, such as 40 hours of work, is spread over its bin in synthetic rows. If "
        "such numbers are known without the rows, name them: spikes: [40]"
    ]
