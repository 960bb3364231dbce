"""The demo's compose file, and one for more owners, are what the compose specification allows."""

import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.compose_folder import write_folder


def test_compose_files_keep_the_compose_specification(tmp_path: Path) -> None:
    """What Compose v2 checks first; its schema comes with the checker."""
    files = (ROOT / "docker-compose.yml", write_folder(tmp_path) / "docker-compose.yml")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
