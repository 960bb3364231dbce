"""Notebooks of ``docs/notebooks``: run, and converted to pages of the site.

Git holds them without outputs, which could not show that the notebooks still work. The tests run
them, and the site shows the outputs of its build. A run leaves nothing to chance: the noise has the
seed of the tests, and the kernel is met at files, not at ports that another process may take.
"""

import os
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tools.markdown import ROOT

FOLDER = ROOT / "docs/notebooks"
TIMEOUT_S = 300  # of one cell, and of the start of a kernel on a busy machine
SEEDED = os.pathsep.join(map(str, (ROOT / "tests/support/seeded_noise", ROOT)))


def list_notebooks() -> list[Path]:
    """Return every notebook, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def read_notebook(path: Path) -> Any:
    """Read a notebook as ``nbformat.NotebookNode``."""
    import nbformat

    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def run_notebook(path: Path) -> Any:
    """Run a notebook and return it with its outputs; a cell that fails raises its error."""
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    with TemporaryDirectory() as folder:
        met_at = {"ip": f"{folder}/kernel", "connection_file": f"{folder}/{path.stem}.json"}
        client = NotebookClient(
            read_notebook(path),
            km=AsyncKernelManager(transport="ipc", **met_at),
            resources={"metadata": {"path": str(path.parent)}},
            startup_timeout=TIMEOUT_S,
            timeout=TIMEOUT_S,
        )
        return client.execute(cleanup_kc=True, env={**os.environ, "PYTHONPATH": SEEDED})


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
