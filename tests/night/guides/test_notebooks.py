"""The notebooks run as they are, are kept without outputs, and show what they promise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dppca.deploy.simulation.notebook import SIMULATED
from tools.markdown import ROOT, find_links, find_loaded
from tools.notebooks import list_notebooks, notebook_page, read_notebook, run_notebook

NOTEBOOKS = list_notebooks()
MOST_LINES = 19


def _code(notebook: Any) -> list[str]:
    cells = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    return [line for source in cells for line in source.splitlines() if line.strip()]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_not_kept(path: Path) -> None:
    cells = [cell for cell in read_notebook(path).cells if cell.cell_type == "code"]
    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_of_notebooks_lead_somewhere(path: Path) -> None:
    for cell in read_notebook(path).cells:
        for link in find_links(cell.source) if cell.cell_type == "markdown" else ():
            assert (path.parent / link).is_file(), link


def test_a_study_is_simulated_in_under_twenty_lines() -> None:
    assert len(_code(read_notebook(ROOT / "docs/notebooks/simulate-a-study.ipynb"))) <= MOST_LINES


def test_the_simulated_study_shows_loadings_marginals_and_accuracy() -> None:
    page = notebook_page(run_notebook(ROOT / "docs/notebooks/simulate-a-study.ipynb"))
    assert SIMULATED in page
    assert "largest loadings" in page
    accuracies = re.findall(r"<td>([^<]*)</td><td>([01]\.[0-9]{3})</td>", page)
    assert [name for name, _ in accuracies][-1] == "nothing: the commonest class"
    pictures = re.findall(r'alt="The picture that found\.plot_(\w+)\(\) draws" src="data:', page)
    assert pictures == ["loadings", "scree", "marginals"]
    assert not list(find_loaded(page))
    assert "<script" not in page


def test_epsilon_is_chosen_by_a_forecast_and_by_runs() -> None:
    page = notebook_page(run_notebook(ROOT / "docs/notebooks/choose-epsilon.ipynb"))
    assert "<td>asked</td><td>laplace</td><td>1</td>" in page
    assert page.count("<td>gaussian</td>") >= 6
    assert "commonest class †" in page
