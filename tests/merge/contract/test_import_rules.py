"""A file that breaks an import rule is caught wherever somebody adds it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.patience import HANG_S

LINT = Path(sys.executable).with_name("lint-imports")
BREACHES = {
    "common/kernel/privacy/added_kernel.py": ("import click", "The kernel imports itself and few"),
    "owner/added_state.py": (
        "import sqlite3",
        "State is written by the ledger and the store alone",
    ),
    "owner/engines/added_dask.py": ("import distributed", "Only owner.engines.dask uses Dask"),
    "owner/ledger/added_lock.py": ("import fcntl", "imports nothing that Windows lacks"),
    "common/added_limit.py": ("import resource", "imports nothing that Windows lacks"),
    "owner/added_socket.py": ("import socket", "Sockets are opened by transport"),
    "owner/commands/added_wire.py": (
        "from dppca.common.wire import federation_pb2",
        "The generated code has few doors",
    ),
    "curator/added_side.py": ("import dppca.owner.site.config", "the sides do not know each other"),
    "common/kernel/schema/added_shared.py": ("import dppca.curator.config", "knows neither side"),
    "common/added_room.py": ("", "Layers of common"),
    "common/kernel/added_transport.py": ("import dppca.common.transport", "Layers of common"),
    "common/kernel/moments/added_layer.py": (
        "import dppca.common.kernel.attestation.tables",
        "Layers of the kernel",
    ),
    "common/analysis/field/added_layer.py": (
        "import dppca.common.analysis.rows.synthesis",
        "Layers of what computes from releases",
    ),
    "curator/study/added_climb.py": ("import dppca.curator.store", "Layers of the curator"),
    "owner/ledger/added_climb.py": ("import dppca.owner.release", "Layers of the owner"),
    "owner/release/added_spark.py": ("import pyspark", "Only its session and its engine use Spark"),
    "owner/added_tool.py": ("import tools.lock", "imports no tests and no tools"),
}


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy with every breach in it."""
    copy = tmp_path_factory.mktemp("copy")
    shutil.copy(ROOT / ".importlinter", copy)
    for name in ("common", "curator", "deploy", "dppca", "owner", "tests", "tools"):
        shutil.copytree(
            ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name, (line, _) in BREACHES.items():
        (copy / name).write_text(f"{line}\n")
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=copy, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return " ".join(done.stdout.split())


@pytest.mark.parametrize("name", BREACHES)
def test_a_file_that_breaks_a_rule_is_named(verdict: str, name: str) -> None:
    module = "dppca." + name.removesuffix(".py").replace("/", ".")
    assert module in verdict
    assert BREACHES[name][1] in verdict.partition("Broken contracts")[2]
