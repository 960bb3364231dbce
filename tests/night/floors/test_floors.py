"""The lowest versions that pyproject.toml declares: installed, and used for a whole demo.

A floor that does not hold fails here, in place of a site's installation: with numpy 2.1, say, a
curator wrote results that every owner refused, once all of them had been charged.
"""

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from dppca.common.kernel.errors import ExitCode
from tests.support.checkout import ROOT
from tests.support.requirements import miss
from tools.install import PROJECTS, run_pip

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = ("demo", "postgres", "sqlite", "delta", "iceberg", "stat", "dask", "page")
PYTHON = "3.11"
"""The lowest one, for which every floor has a wheel."""


def run(*line: object, code: int = 0, **variables: str) -> str:
    """Run a program outside the repository, whose folder would hide the installed package."""
    done = subprocess.run(
        [*map(str, line)],
        cwd=variables.pop("cwd", None),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def uv() -> Path:
    tool = ROOT / "build/tools/bin/uv"
    if shutil.which(f"python{PYTHON}") is None:
        miss(f"python{PYTHON}", f"apt-get install python{PYTHON}")
    return tool if tool.exists() else Path(shutil.which("uv") or miss("uv", "pip install uv"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The wheels of this software: a site's, the verifier's, the others."""
    made = tmp_path_factory.mktemp("dist")
    asked = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir")
    assert run_pip(*asked, made, *PROJECTS.values()).returncode == 0
    return [next(made.glob(f"{name.replace('-', '_')}-*.whl")) for name in PROJECTS]


def install(uv: Path, wheels: list[Path], folder: Path, *wanted: str) -> Path:
    """Make an environment of the lowest versions, and of some wheels; return its programs."""
    pins = folder / "pins.txt"
    own = [word for name in PROJECTS for word in ("--no-emit-package", name)]
    lowest = ("--resolution", "lowest-direct", "--python-version", PYTHON, "--quiet", *own)
    run(uv, "pip", "compile", *lowest, *wanted, "--output-file", pins, cwd=str(ROOT))
    run(uv, "venv", "--no-python-downloads", "--python", PYTHON, folder / "env")
    to = ("--quiet", "--python", folder / "env/bin/python")
    run(uv, "pip", "install", *to, "--only-binary", ":all:", "--requirement", pins)
    run(uv, "pip", "install", *to, "--no-deps", *wheels)
    return folder / "env/bin"


@pytest.fixture(scope="module")
def all_floors(uv: Path, wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    extras = (word for name in EXTRAS for word in ("--extra", name))
    return install(uv, wheels, tmp_path_factory.mktemp("all"), "pyproject.toml", *extras)


@pytest.fixture(scope="module")
def verifier(uv: Path, wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(uv, wheels[1:2], tmp_path_factory.mktemp("verify"), "--group", "verify")


@pytest.fixture(scope="module")
def demo(all_floors: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    run(all_floors / "dppca-simulate", "demo", "--output", folder / "out", cwd=str(folder))
    return folder / "out"


def declared(lines: list[str]) -> Iterator[Requirement]:
    yield from (each for each in map(Requirement, lines) if not each.name.startswith("dppca"))


def installed(programs: Path) -> dict[str, Version]:
    code = (
        "import importlib.metadata as m, json; "
        "print(json.dumps([(each.name, each.version) for each in m.distributions()]))"
    )
    found = json.loads(run(programs / "python", "-c", code))
    return {canonicalize_name(name): Version(version) for name, version in found}


def test_what_is_installed_is_every_declared_floor(all_floors: Path, verifier: Path) -> None:
    optional = PROJECT["project"]["optional-dependencies"]
    lines = {name: optional[name] for name in (*EXTRAS, "simulate", "curator", "plots")}
    every = [
        *PROJECT["project"]["dependencies"],
        *(line for each in lines.values() for line in each),
    ]
    for programs, wanted in (
        (all_floors, every),
        (verifier, PROJECT["dependency-groups"]["verify"]),
    ):
        found = installed(programs)
        for each in declared(wanted):
            (floor,) = (Version(s.version) for s in each.specifier if s.operator == ">=")
            assert found[canonicalize_name(each.name)] == floor, f"{each} is not what is installed"


def test_each_module_of_the_wheels_is_imported(all_floors: Path) -> None:
    code = (
        "import pkgutil, importlib, warnings, dppca\n"
        "from dppca.common.shell.packages import show_packages\n"
        "for found in pkgutil.walk_packages(dppca.__path__, 'dppca.'):\n"
        "    if 'spark' not in found.name:\n"
        "        importlib.import_module(found.name)\n"
        "    show_packages()\n"  # which a command's module hides
    )
    run(all_floors / "python", "-c", code, cwd=str(all_floors))


MASKED = '''
import dppca
study = """
name: floors
owners: [a, b, c]
deadline: "2090-01-31T12:00Z"
open_by: "2090-02-28T12:00Z"
privacy: {mechanism: gaussian, epsilon: "8", delta: "1e-6", trust: aggregate, colluders: 1}
components: {count: 1}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: age, type: numeric, lower: 0, upper: 100, integer: true}
    - {name: ill, type: binary, values: ["no", "yes"]}
"""
rows = {"age": [*range(100), None] * 3, "ill": ["no", "yes", "no"] * 101}
found = dppca.simulate({owner: rows for owner in "abc"}, study)
assert len(found.decoded["age"]) == 909
'''


def test_one_masked_sum_is_simulated(all_floors: Path) -> None:
    run(all_floors / "python", "-c", MASKED, cwd=str(all_floors))


THREADS = """
from concurrent.futures import ThreadPoolExecutor
import numpy, scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_info
from dppca.common.kernel.moments.threads import one_blas_thread

def counted():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

def counted_inside():
    with one_blas_thread():
        return counted()

ThreadpoolController().limit(limits=3, user_api="blas")
one, other = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
for pool in (one, other):
    assert pool.submit(counted_inside).result() == {1}
    assert counted() == {3}
"""


def test_blas_is_limited_in_whichever_thread(all_floors: Path) -> None:
    run(all_floors / "python", "-c", THREADS, cwd=str(all_floors))


def test_the_demo_runs_and_what_it_made_is_verified(
    all_floors: Path, verifier: Path, demo: Path
) -> None:
    for name in ("components.npz", "synthetic-coded.parquet", "synthetic-decoded.parquet"):
        for programs in (all_floors, verifier):
            program = "dppca-verify" if programs == verifier else "dppca-owner"
            said = run(
                programs / program, "verify", demo / name, code=ExitCode.UNVOUCHED, cwd=str(demo)
            )  # the demo keeps no CA
            assert "countersigned by curator" in said
            assert "computed again from the study" in said
