"""The zip that goes to workers."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from dppca.owner.engines.kernel import take_fingerprint
from dppca.owner.engines.package import (
    build_kernel,
    digest_kernel,
    kernel_sources,
    pack_sources,
)
from tests.support.patience import WAIT_S

ALLOWED = "numpy scipy pyarrow pydantic pydantic_core yaml threadpoolctl annotated_types "
ALLOWED += "typing_extensions typing_inspection dppca"
ISOLATED = f"""
import sys
allowed = {{*{ALLOWED!r}.split(), *sys.stdlib_module_names}}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed and not name.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
from dppca.owner.engines.kernel import answer_part, fingerprint_document
assert fingerprint_document.__code__.co_filename.startswith(sys.argv[1])
print(fingerprint_document())
"""


def test_a_worker_needs_no_more_than_it_is_said_to_have(tmp_path: Path) -> None:
    path = build_kernel(tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-c", ISOLATED, str(path)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert take_fingerprint().kernel in done.stdout
    assert take_fingerprint().canary in done.stdout


def test_the_zip_has_nothing_but_the_pass(tmp_path: Path) -> None:
    path = build_kernel(tmp_path)
    assert path.suffix == ".zip"
    names = zipfile.ZipFile(path).namelist()
    assert "dppca/owner/engines/kernel.py" in names
    for room in ("common/privacy/noise", "common/wire", "owner/ledger", "owner/release", "curator"):
        assert not [name for name in names if name.startswith(f"dppca/{room}")], room
    assert not [name for name in names if name.startswith("dppca/owner/engines/dask")]


def test_the_same_code_is_the_same_file_and_other_code_another(tmp_path: Path) -> None:
    sources = kernel_sources()
    assert build_kernel(tmp_path).read_bytes() == pack_sources(sources)
    assert digest_kernel()[:16] in build_kernel(tmp_path).name
    key = "dppca/owner/records/table.py"
    assert pack_sources(sources | {key: sources[key] + "\n"}) != pack_sources(sources)
