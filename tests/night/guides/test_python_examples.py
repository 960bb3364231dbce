"""Python in the documentation: examples, notebooks and the tutorial's script run as printed."""

import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dppca
from dppca.deploy.simulation.notebook import SIMULATED
from tests.support.checkout import ROOT
from tools.markdown import find_links, find_loaded
from tools.notebooks import list_notebooks, notebook_page, read_notebook, run_notebook

PAGE = ROOT / "docs/reference/api.md"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder of the test's own: some examples write a file."""
    monkeypatch.chdir(tmp_path)


def test_the_examples_of_the_python_interface_run() -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    name = PAGE.name
    examples = doctest.DocTestParser().get_doctest("".join(blocks), {}, name, name, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    said: list[str] = []
    runner.run(examples, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def _modules_with_examples() -> list[str]:
    """Every module of the product with an example in a docstring, found by its text.

    Those of estimates run at each push, where ``asked`` is made for them (`test_face`).
    """
    found = [
        path
        for room in ("common", "curator", "deploy", "dppca", "owner")
        for path in sorted((ROOT / room).rglob("*.py"))
        if ">>> " in path.read_text() and path.parent.name != "estimates"
    ]
    return [f"dppca.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}" for path in found]


@pytest.mark.parametrize("module", _modules_with_examples())
def test_the_examples_in_docstrings_run(module: str) -> None:
    result = doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", sorted(dppca.__all__))
def test_every_public_name_stands_in_an_example(name: str) -> None:
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert re.search(rf"\b{name}\b", "".join(blocks))


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


def test_questions_are_answered_and_replicates_widen_what_the_rows_say() -> None:
    page = notebook_page(run_notebook(ROOT / "docs/notebooks/estimate.ipynb"))
    tables = [re.findall(r"<tr>(.*?)</tr>", each, re.DOTALL) for each in page.split("<table")[1:]]
    assert len(tables) == 4
    rows = [re.findall(r"<td>(-?[\d.e-]+)</td>", row) for row in tables[-1]]
    bse, naive = zip(*((float(row[1]), float(row[4])) for row in rows if row), strict=True)
    assert sum(bse) > 2 * sum(naive)


def test_three_methods_are_compared_on_a_csv_file(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "docs/tutorial/compare_methods.py"]
    made_up = ["--rows", "600", "--runs", "2", "--output", str(tmp_path)]
    done = subprocess.run(
        [*command, *made_up], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "600 rows, 6 attributes" in done.stdout
    assert "DP-SVM, sound" in done.stdout  # the guarantee
    *_, last = [line for line in done.stdout.splitlines() if line.strip().startswith("no privacy")]
    assert 0.6 < float(last.split()[-1]) <= 1
    assert (tmp_path / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    again = [*command, "--data", str(tmp_path / "clinic.csv"), "--runs", "1"]
    done = subprocess.run(
        [*again, "--output", str(tmp_path / "again")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "again" / "clinic.csv").exists()
