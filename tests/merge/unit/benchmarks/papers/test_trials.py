"""The lines of a figure crossed with what it varies."""

from __future__ import annotations

from benchmarks.papers.rows import PaperSource
from benchmarks.papers.trials import CEILING, PUBLISHED, SOUND, GridForm, crossed

SOURCE = PaperSource("toy")


def test_every_combination_is_one_cell_in_the_order_of_the_table() -> None:
    forms = (GridForm("a", PUBLISHED), GridForm("a", SOUND, "1e-9"))
    cells = crossed(SOURCE, forms, seeds=(1, 2), epsilons=("0.1", "1"), rows=(5, 9), target="t")
    assert len(cells) == len({(cell.name, cell.seed) for cell in cells}) == 2 * 2 * 2 * 2
    told = [(c.variant, c.epsilon, c.rows, c.seed) for c in cells]
    assert told[:5] == [
        (PUBLISHED, "0.1", 5, 1),
        (PUBLISHED, "0.1", 5, 2),
        (PUBLISHED, "0.1", 9, 1),
        (PUBLISHED, "0.1", 9, 2),
        (PUBLISHED, "1", 5, 1),
    ]
    assert {cell.delta for cell in cells if cell.variant == SOUND} == {"1e-9"}
    assert {cell.target for cell in cells} == {"t"}


def test_what_has_no_noise_varies_with_rows_and_columns_alone() -> None:
    cells = crossed(
        SOURCE,
        (GridForm("SVM"), GridForm("a", SOUND)),
        seeds=(1,),
        epsilons=("0.1", "1"),
        owners=(2, 4),
        rows=(5, 9),
        columns=(3,),
        components=(1, 2),
    )
    plain = [cell for cell in cells if cell.variant == CEILING]
    assert [(c.epsilon, c.owners, c.rows, c.columns, c.components) for c in plain] == [
        ("", 1, 5, 3, 0),
        ("", 1, 9, 3, 0),
    ]
    assert len(cells) == 2 + 2 * 2 * 2 * 2
