"""What is in the four wheels and in the source archive, and that each wheel is used alone."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder

from dppca.common.kernel.errors import SettingError
from dppca.common.shell.packages import WHEELS
from tests.support.checkout import ROOT
from tests.support.sites import make_proved_site
from tools.install import PROJECTS, run_pip

LINKED = ("common", "curator", "deploy", "owner")
SITE, VERIFY, CURATOR, LAB = PROJECTS


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked."""
    folder = tmp_path_factory.mktemp("archive")
    archive = next(SdistBuilder(str(ROOT)).build(directory=str(folder)))
    # Python before 3.11.4 has no filters, and needs none for what we packed.
    filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    shutil.unpack_archive(archive, folder, **filters)
    (found,) = folder.glob("dppca-*/")
    return found


@pytest.fixture(scope="module")
def wheels(unpacked: Path) -> Mapping[str, Path]:
    """The wheels by name, made from the archive as `make wheels` makes them."""
    projects = [unpacked / place.relative_to(ROOT) for place in PROJECTS.values()]
    made = unpacked.parent / "dist"
    asked = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir")
    assert run_pip(*asked, made, *projects).returncode == 0
    assert len([*made.iterdir()]) == len(projects)
    return {name: next(made.glob(f"{name.replace('-', '_')}-*.whl")) for name in PROJECTS}


def _held(wheel: Path) -> dict[str, bytes]:
    """Files of a wheel by their places, without what only describes it."""
    with zipfile.ZipFile(wheel) as archive:
        return {each: archive.read(each) for each in archive.namelist() if ".dist-info" not in each}


def _files(folder: Path) -> set[str]:
    """The repository's files below a folder, links not followed, without what tools leave there."""
    return {
        str(Path(place, name).relative_to(ROOT))
        for place, _, names in os.walk(folder)
        for name in names
        if "__pycache__" not in place and not name.endswith(".pyc")
    }


def test_each_file_of_the_product_is_in_one_wheel_and_nothing_else_is(
    wheels: Mapping[str, Path],
) -> None:
    held = {name: _held(wheel) for name, wheel in wheels.items()}
    for name, files in held.items():
        written = [files[path] for path in files if path.endswith(".py") and "/wire/" not in path]
        lines = sum(text.count(b"\n") for text in written)
        sys.stdout.write(f"{name}: {lines} lines, {wheels[name].stat().st_size >> 10} KiB\n")
    places = [path for files in held.values() for path in files]
    assert len(places) == len({*places}), "no file is in two wheels"
    product = {f"dppca/{name}" for folder in LINKED for name in _files(ROOT / folder)}
    assert {*places} == product | {"dppca/__init__.py", "dppca/py.typed"}
    assert all(path.startswith(("dppca/owner/", "dppca/common/")) for path in held[SITE])
    for name in (CURATOR, LAB):
        folders = tuple(each.replace(".", "/") + "/" for each, of in WHEELS.items() if of == name)
        assert all(path.startswith(folders) for path in held[name])


def test_the_source_archive_holds_every_folder_and_what_links_lead_to() -> None:
    files = [f.distribution_path for f in SdistBuilder(str(ROOT)).recurse_included_files()]
    found = set(files)
    assert len(files) == len(found), "each file once"
    folders = [*LINKED, "dppca", "proto", "requirements", "tests", "tools", "wheels"]
    expected = {name for folder in folders for name in _files(ROOT / folder)}
    expected |= {f"dppca/{name}" for folder in LINKED for name in _files(ROOT / folder)}
    expected |= {"Makefile", "README.md", ".importlinter", "mkdocs.yml"}
    assert len(expected) > 700
    assert expected - found == set()


def test_an_unpacked_archive_gets_its_links_again(unpacked: Path) -> None:
    subprocess.run(["sh", "deploy/links.sh"], cwd=unpacked, check=True)  # as `make install` does
    assert all((unpacked / "dppca" / room).is_symlink() for room in LINKED)
    assert (unpacked / "dppca/common/kernel/errors.py").samefile(
        unpacked / "common/kernel/errors.py"
    )


class Installed:
    """A fresh environment with the dependencies of this one, and a common name in the way."""

    def __init__(self, folder: Path, wheels: Mapping[str, Path]) -> None:
        venv.create(folder / "fresh", with_pip=False)
        self.programs, self.folder, self._wheels = folder / "fresh/bin", folder, wheels
        (self.packages,) = folder.glob("fresh/lib/python3*/site-packages")
        (self.packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
        (folder / "common.py").write_text("raise ImportError('not the common of DPPCA')")

    def pip(self, *arguments: object) -> None:
        begun = time.monotonic()
        assert run_pip("--python", self.programs / "python", *arguments).returncode == 0
        what = f"{arguments[0]} {Path(str(arguments[-1])).name}"
        sys.stdout.write(f"{what}: {time.monotonic() - begun:.1f} s\n")

    def install(self, name: str) -> None:
        self.pip("install", "--quiet", "--no-index", "--no-deps", self._wheels[name])

    def files(self) -> set[Path]:
        return {each for each in self.packages.rglob("*") if "__pycache__" not in str(each)}

    def run(self, program: str, *arguments: object, code: int = 0) -> str:
        """What a program prints; Python finds nothing of the checkout."""
        line = [str(self.programs / program), *map(str, arguments)]
        done = subprocess.run(line, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def python(self, code: str) -> str:
        return self.run("python", "-W", "ignore", "-c", f"import dppca\n{code}")

    def refusal(self, name: str) -> str:
        """The error of a public name, whose wheel is not there."""
        asked = f"try: from dppca import {name}\nexcept ImportError as error: print(error)"
        return self.python(asked)


EVERY_MODULE = """
import pkgutil, importlib
for found in pkgutil.walk_packages(dppca.__path__, 'dppca.'):
    importlib.import_module(found.name)
    print(found.name)
"""
SPARK = """
from pathlib import Path
from dppca.common.kernel.errors import SettingError
from dppca.owner.engines.selection import open_engine
try:
    with open_engine("spark", Path()): pass
except SettingError as error: print(error)
"""
DIGEST = "from dppca.owner.engines import kernel; print(kernel.digest_code())"
SIMULATED = '''
study = dppca.study_from_yaml("""
name: wheels
owners: [a, b]
privacy: {mechanism: laplace, epsilon: "8"}
components: {count: 1}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: age, type: numeric, lower: 0, upper: 100, integer: true}
    - {name: ill, type: binary, values: ["no", "yes"]}
""")
rows = {"age": [*range(100)], "ill": ["no", "yes"] * 50}
found = dppca.simulate({owner: rows for owner in "ab"}, study)
assert {*found.decoded} == {*rows}
dppca.PPCADPMH
'''


def test_each_wheel_is_used_on_those_that_it_needs_and_the_lab_leaves_them_whole(
    wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    made = make_proved_site(tmp_path / "site")
    (tmp_path / "ca.pem").write_bytes(made.ca)
    here = Installed(tmp_path, wheels)

    here.install(VERIFY)
    told = here.python(f"{EVERY_MODULE}dppca.Study")
    assert not re.search(r"^dppca\.(owner|common\.(pages|transport|wire))", told, re.MULTILINE)
    asked = (made.components, "--ca", tmp_path / "ca.pem")
    assert here.run("dppca-verify", "verify", *asked).startswith("VERIFIED")
    assert not (here.programs / "dppca-owner").exists()
    assert "the wheel dppca-lab" in here.refusal("simulate")

    here.install(SITE)
    told = here.python(f"{EVERY_MODULE}print(dppca.__file__); dppca.Study")
    assert not re.search(r"^dppca\.(curator|deploy|common\.papers)", told, re.MULTILINE)
    assert told.splitlines()[-1].startswith(str(here.packages))
    assert "Example" in here.run("dppca-owner", "-h")
    assert here.run("dppca-owner", "verify", *asked).startswith("VERIFIED")
    assert "an engine of Spark needs pyspark" in here.python(SPARK), "found by its entry point"
    assert here.refusal("AGSVM").startswith("dppca.AGSVM needs the wheel dppca-lab: install it")
    assert "the wheel dppca-lab" in here.refusal("simulate")
    assert "the wheel dppca-curator" in here.refusal("plan")
    refused = here.run("dppca-owner", "selftest", "--quick", code=SettingError.exit_code)
    assert refused.startswith("error: the self-test needs the wheel dppca-curator: install it in")
    digest = here.python(DIGEST)

    here.install(CURATOR)
    assert "Example" in here.run("dppca-curator", "-h")
    here.run("dppca-curator", "pki", "init", "--directory", tmp_path / "authority")
    here.python("dppca.plan")
    assert "the wheel dppca-lab" in here.refusal("AGSVM")
    before = here.files()

    here.install(LAB)
    assert "Example" in here.run("dppca-simulate", "-h")
    here.python(SIMULATED)
    assert here.python(DIGEST) == digest, "workers of a cluster need no laboratory"

    here.pip("uninstall", "--quiet", "--yes", LAB)
    assert here.files() == before
    assert not (here.programs / "dppca-simulate").exists()
    assert "the wheel dppca-lab" in here.refusal("AGSVM")
    here.python("dppca.Study, dppca.plan")
    for program in ("dppca-owner", "dppca-curator"):
        assert "Example" in here.run(program, "-h")
