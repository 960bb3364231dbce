"""The lines of a figure, crossed with what the figure varies: the cells that it is made of.

A figure's line is a `GridForm`: a method in one of its variants. A line without noise does not
depend on epsilon, on how many owners hold the rows, or on how many components a private method
keeps, so it has one cell where the others have many. What varies goes from the outermost to the
innermost: line, epsilon, owners, rows, columns, components, seed; tables keep that order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from benchmarks.papers.rows import PaperSource
from benchmarks.papers.trials import CEILING, Trial


@dataclass(frozen=True, slots=True)
class GridForm:
    """One line of a figure; fields as of `Trial`."""

    method: str
    variant: str = CEILING
    delta: str = ""


def crossed(
    source: PaperSource,
    forms: Iterable[GridForm],
    *,
    seeds: Iterable[int],
    epsilons: Sequence[str],
    owners: Sequence[int] = (1,),
    rows: Sequence[int] = (0,),
    columns: Sequence[int] = (0,),
    components: Sequence[int] = (0,),
    target: str = "",
) -> list[Trial]:
    """Every cell of the lines on one table, for every combination of what varies."""
    cells: list[Trial] = []
    for form in forms:
        noisy = form.variant != CEILING
        varied = product(
            epsilons if noisy else ("",),
            owners if noisy else (1,),
            rows,
            columns,
            components if noisy else (0,),
            seeds,
        )
        cells += [
            Trial(
                source,
                form.method,
                form.variant,
                epsilon=epsilon,
                delta=form.delta,
                owners=m,
                rows=n,
                columns=d,
                components=k,
                target=target,
                seed=seed,
            )
            for epsilon, m, n, d, k, seed in varied
        ]
    return cells
