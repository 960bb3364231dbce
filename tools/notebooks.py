"""Notebooks of ``docs/notebooks``: run, and converted to pages of the site.

Git holds them without outputs: each run draws new noise, so stored outputs would change with every
run and could not show that the notebooks still work. The tests run them, and the site shows the
outputs of its build.
"""

from base64 import b64encode
from pathlib import Path
from typing import Any

from tools.markdown import ROOT

FOLDER = ROOT / "docs/notebooks"
TIMEOUT_S = 300


def list_notebooks() -> list[Path]:
    """Return every notebook, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def read_notebook(path: Path) -> Any:
    """Read a notebook as ``nbformat.NotebookNode``."""
    import nbformat

    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run_notebook(path: Path) -> Any:
    """Run a notebook and return it with its outputs; a cell that fails raises its error."""
    from nbclient import NotebookClient

    notebook = read_notebook(path)
    place = {"metadata": {"path": str(path.parent)}}
    return NotebookClient(notebook, timeout=TIMEOUT_S, resources=place).execute()


def notebook_page(notebook: Any) -> str:
    """Return a notebook that was run, as Markdown."""
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
    """Format one output; the line that made a picture names it."""
    if output.output_type == "stream":
        return f"```text\n{output.text}```"
    data = output.data
    pictures = {"image/png": data.get("image/png", "").strip()}
    pictures["image/svg+xml"] = b64encode(data.get("image/svg+xml", "").encode()).decode()
    for kind, content in pictures.items():
        if content:
            source = f"data:{kind};base64,{content}"
            return f'<img alt="The picture that {made_by} draws" src="{source}">'
    if "text/html" in data:
        return f"<div>{data['text/html']}</div>".replace("\n", " ")
    return f"```text\n{data['text/plain']}\n```"
