#!/bin/bash
# nbclient 0.11.0 (jupyter-client 8.10.0, ipykernel 7.4.0, nbformat 5.11.1, Python 3.11):
# a notebook that runs in a folder of its own (resources: metadata: path) never starts with transport "ipc": the client
# looks for the kernel's sockets (kernel-ipc-1 ...) in its own folder, the kernel makes them in the notebook's, and after
# startup_timeout (60 s by default) "Kernel didn't respond" is raised. The sockets stay beside the notebook. In one
# folder, or with an absolute "ip", the same notebook runs.
# Leaves with 0 while this is so, and with 1 once it has changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install nbclient==0.11.0 jupyter-client==8.10.0 ipykernel==7.4.0 nbformat==5.11.1
cat > "$work/try.py" <<'END'
import os
import sys
import tempfile

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

here, there = tempfile.mkdtemp(), tempfile.mkdtemp()
os.chdir(here)


def runs_in(folder: str, **met_at: str) -> str:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")])
    manager = AsyncKernelManager(transport="ipc", **met_at)
    place = {"metadata": {"path": folder}}
    try:
        NotebookClient(notebook, km=manager, resources=place, startup_timeout=15).execute()
    except RuntimeError as error:
        return type(error).__name__
    return notebook.cells[0].outputs[0].data["text/plain"]


seen = runs_in(here), runs_in(there, ip=f"{here}/absolute"), runs_in(there)
print("in one folder, at an absolute place, in another folder:", seen)
print("the kernel's sockets:", sorted(name for name in os.listdir(there) if "ipc" in name))
sys.exit(seen != ("2", "2", "RuntimeError"))
END
"$work/venv/bin/python" "$work/try.py"
