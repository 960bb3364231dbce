"""The image's label of its commit: what ``deploy/revision.sh`` prints, and where it goes."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.checkout import ROOT

SCRIPT = "deploy/revision.sh"


def run(folder: Path, *line: str) -> str:
    """What a command prints in a folder, whatever git is told about this machine's user."""
    who = {
        f"GIT_{role}_{what}": "t" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    alone = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        line, cwd=folder, env=os.environ | who | alone, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_commit_a_change_and_an_archive_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / SCRIPT, tmp_path / SCRIPT)
    assert run(tmp_path, "sh", SCRIPT) == "unknown"
    run(tmp_path, "git", "init", "--quiet")
    run(tmp_path, "git", "add", ".")
    run(tmp_path, "git", "commit", "--quiet", "--message", "first")
    commit = run(tmp_path, "git", "rev-parse", "HEAD")
    assert run(tmp_path, "sh", SCRIPT) == commit
    (tmp_path / "new").touch()
    assert run(tmp_path, "sh", SCRIPT) == f"{commit}-changed"


def test_every_build_hands_it_to_the_label() -> None:
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    assert 'LABEL org.opencontainers.image.revision="${REVISION}"' in dockerfile
    script = (ROOT / "deploy/compose.sh").read_text()
    assert "REVISION=$(sh deploy/revision.sh)" in script
    assert '--build-arg REVISION="$REVISION"' in script
