"""The notebooks of ``docs/notebooks``: run, and turned into pages of the site.

Git holds them without outputs: noise is drawn anew in each run, so stored outputs would change with
every run and say nothing about whether they still come out. The tests run them, and the site shows
what came out when it was built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.markdown import ROOT

FOLDER = ROOT / "docs/notebooks"
TIMEOUT_S = 300


def list_notebooks() -> list[Path]:
    """Every notebook, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def read_notebook(path: Path) -> Any:
    """A notebook as ``nbformat.NotebookNode``."""
    import nbformat

    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run_notebook(path: Path) -> Any:
    """The notebook with what comes out of each cell.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell fails.
    """
    from nbclient import NotebookClient

    notebook = read_notebook(path)
    place = {"metadata": {"path": str(path.parent)}}
    return NotebookClient(notebook, timeout=TIMEOUT_S, resources=place).execute()


def notebook_page(notebook: Any) -> str:
    """A notebook that was run, as Markdown."""
    parts: list[str] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        last = cell.source.splitlines()[-1]
        parts += [_output(output, last) for output in cell.outputs]
    return "\n\n".join(parts) + "\n"


def _output(output: Any, made_by: str) -> str:
    """One output; a picture is named by the line that made it."""
    if output.output_type == "stream":
        return f"```text\n{output.text}```"
    data = output.data
    if "image/png" in data:
        source = f"data:image/png;base64,{data['image/png'].strip()}"
        return f'<img alt="The picture that {made_by} draws" src="{source}">'
    if "text/html" in data:
        return f"<div>{data['text/html']}</div>".replace("\n", " ")
    return f"```text\n{data['text/plain']}\n```"
