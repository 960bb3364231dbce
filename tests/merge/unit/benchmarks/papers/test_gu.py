"""Which lines the figures of Gu et al. have."""

from __future__ import annotations

from benchmarks.papers.gu import CENTRAL, NETWORK, fig2_grid, fig3_grid, fig4_grid
from benchmarks.papers.trials import SOUND, Scope

FULL = Scope()


def test_figures_against_epsilon_and_owners_have_both_networks_five_times() -> None:
    third = [cell for cell in fig3_grid(FULL) if cell.method in (NETWORK, CENTRAL)]
    assert len(third) == 2 * 2 * 2 * 4 * 5  # tables, targets, networks, epsilons, runs
    assert {cell.variant for cell in third} == {SOUND}
    assert {(cell.method, cell.owners) for cell in third} == {(NETWORK, 3), (CENTRAL, 1)}
    fourth = [cell for cell in fig4_grid(FULL) if cell.method in (NETWORK, CENTRAL)]
    owners = {cell.owners for cell in fourth if cell.method == NETWORK}
    assert owners == {2, 4, 6, 8, 10}
    assert {cell.owners for cell in fourth if cell.method == CENTRAL} == {1}


def test_networks_have_no_components_to_vary() -> None:
    assert not [cell for cell in fig2_grid(FULL) if cell.method in (NETWORK, CENTRAL)]
