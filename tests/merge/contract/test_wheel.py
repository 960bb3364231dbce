"""What is in the wheel and in the source archive, and that a fresh environment takes them."""

import os
import shutil
import subprocess
import sysconfig
import tarfile
import venv
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tests.support.checkout import ROOT
from tools.install import run_pip

OURS_ALONE = {"tools", "tests", "benchmarks", "docs", "fault_injection", "fuzz"}
LINKED = ("common", "curator", "deploy", "owner")


def test_the_wheel_holds_one_package_and_nothing_that_only_the_repository_needs() -> None:
    files = [
        Path(file.distribution_path) for file in WheelBuilder(str(ROOT)).recurse_included_files()
    ]
    assert len(files) > 100
    assert {path.parts[0] for path in files} == {"dppca"}, "an installed DPPCA occupies one name"
    assert [str(path) for path in files if OURS_ALONE & {*path.parts}] == []


def _files(folder: Path) -> set[str]:
    """The repository's files below a folder, links not followed, without what tools leave there."""
    return {
        str(Path(place, name).relative_to(ROOT))
        for place, _, names in os.walk(folder)
        for name in names
        if "__pycache__" not in place and not name.endswith(".pyc")
    }


def test_the_source_archive_holds_every_folder_and_what_links_lead_to() -> None:
    files = [f.distribution_path for f in SdistBuilder(str(ROOT)).recurse_included_files()]
    found = set(files)
    assert len(files) == len(found), "each file once"
    folders = [*LINKED, "dppca", "proto", "requirements", "tests", "tools"]
    expected = {name for folder in folders for name in _files(ROOT / folder)}
    expected |= {f"dppca/{name}" for folder in LINKED for name in _files(ROOT / folder)}
    expected |= {"Makefile", "README.md", ".importlinter", "mkdocs.yml"}
    assert len(expected) > 700
    assert expected - found == set()


def test_a_fresh_environment_takes_the_source_archive_and_its_wheel(tmp_path: Path) -> None:
    """With the dependencies of this environment, and a module of a common name in the way."""
    archive = next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path / "dist")))
    # Python before 3.11.4 has no filters, and needs none for what we packed.
    filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    shutil.unpack_archive(archive, tmp_path, **filters)
    (unpacked,) = tmp_path.glob("dppca-*")
    assert (unpacked / "pyproject.toml").is_file()  # which every archive has, unlisted
    wheel = next(WheelBuilder(str(unpacked)).build(directory=str(tmp_path / "dist")))
    subprocess.run(["sh", "deploy/links.sh"], cwd=unpacked, check=True)  # as `make install` does
    assert all((unpacked / "dppca" / room).is_symlink() for room in LINKED)
    assert (unpacked / "dppca/common/kernel/errors.py").samefile(
        unpacked / "common/kernel/errors.py"
    )
    fresh = tmp_path / "fresh"
    venv.create(fresh, with_pip=False)
    python = fresh / "bin" / "python"
    given = ("--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    assert run_pip(*given).returncode == 0
    (packages,) = fresh.glob("lib/python3*/site-packages")
    assert {p.name for p in packages.iterdir() if ".dist-info" not in p.name} == {"dppca"}
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "common.py").write_text("raise ImportError('not the common of DPPCA')")
    code = "import dppca; print(dppca.__file__); dppca.PPCADPMH, dppca.read_result, dppca.plan"
    run = [str(python), "-c", code]
    told = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert told.stdout.startswith(str(packages))
    for program in ("dppca-owner", "dppca-curator", "dppca-simulate"):
        asked = [str(fresh / "bin" / program), "-h"]
        shown = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "Example" in shown.stdout
