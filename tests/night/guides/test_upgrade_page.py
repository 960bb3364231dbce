"""The commands of ``docs/how-to/upgrade.md``, forward and back, by two versions that are installed.

Both are wheels of this checkout, numbered 1.0.0 and 1.1.0, and ``systemctl`` starts and stops a
daemon of whichever is installed. What a newer form of files does to the way back is decided in
``tests/merge/integration/test_way_back.py``.
"""

import json
import os
import re
import shutil
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hatchling.builders.sdist import SdistBuilder

from tests.support.checkout import ROOT
from tests.support.patience import run_watched, wait_until
from tests.support.ports import reserved_port
from tests.support.sites import policy_text
from tests.support.studies import make_study
from tools.install import PROJECTS, run_pip

PAGE = (ROOT / "docs/how-to/upgrade.md").read_text()
INSTALLED = ("dppca-verify", "dppca", "dppca-curator")
OLD, NEW = "1.0.0", "1.1.0"
SYSTEMCTL = """\
#!/bin/sh
if [ "$1" = stop ]; then
    kill "$(cat daemon.pid)"
    while readlink "/proc/$(cat daemon.pid)/exe" >/dev/null; do sleep 0.05; done
else
    opt/bin/dppca-curator serve --state "$STATE" --listen "127.0.0.1:$PORT" --credentials hub \\
        >>log 2>&1 </dev/null &
    echo $! >daemon.pid
fi
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of both versions."""
    made, source = (tmp_path_factory.mktemp(name) for name in ("dist", "source"))
    archive = next(SdistBuilder(str(ROOT)).build(directory=str(source)))
    # Python before 3.11.4 has no filters, and needs none for what we packed.
    filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    shutil.unpack_archive(archive, source, **filters)
    (unpacked,) = source.glob("dppca-*/")
    asked = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir")
    places = [unpacked / PROJECTS[name].relative_to(ROOT) for name in INSTALLED]
    for version in (OLD, NEW):
        for place in places:
            path = place / "pyproject.toml"
            text = re.sub(
                r'^version = ".*"$', f'version = "{version}"', path.read_text(), flags=re.M
            )
            path.write_text(re.sub(r'"(dppca[\w-]*)==[^"]*"', rf'"\1=={version}"', text))
        assert run_pip(*asked, made, *places).returncode == 0
    return made


class Machine:
    """One machine with ``/opt/dppca`` (here ``opt``), a daemon and a site, in a folder."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.folder = folder
        with reserved_port() as self.port:
            pass
        venv.create(folder / "opt", with_pip=True)
        # What the lock names is there already, so that nothing is fetched.
        (packages,) = (folder / "opt/lib").glob("python*/site-packages")
        (packages / "locked.pth").write_text(f"{Path(click.__file__).parents[1]}\n")
        (folder / "requirements").symlink_to(ROOT / "requirements")
        for wheel in wheels.iterdir():
            shutil.copy(wheel, folder)
        commands = folder / "bin"
        commands.mkdir()
        (commands / "systemctl").write_text(SYSTEMCTL)
        (commands / "systemctl").chmod(0o755)
        self.variables = {
            "PATH": f"{commands}:{folder / 'opt/bin'}:{os.environ['PATH']}",
            "STATE": "state",
            "PORT": str(self.port),
            "DPPCA_CURATOR": f"localhost:{self.port}",
            "DPPCA_CREDENTIALS": "alice",
            "OPENBLAS_NUM_THREADS": "1",
            "PIP_NO_INDEX": "1",
        }

    def run(self, line: str) -> str:
        done = run_watched(["sh", "-euc", line], cwd=self.folder, env=self.variables)
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        return done.stdout

    def paste(self, version: str) -> None:
        """The commands of the page, for a version."""
        (block,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
        lines = re.findall(r"^# (.*)$", block, re.MULTILINE)
        assert len(lines) == len(block.splitlines()) == 4
        for line in lines:
            self.run(line.replace("/opt/dppca", "opt").replace(NEW, version))

    def version(self) -> str:
        return self.run("dppca-curator --version").split()[-1]

    def until_it_serves(self) -> None:
        health = "dppca-curator health --curator $DPPCA_CURATOR --credentials hub"
        wait_until(lambda: "SERVING" in self.run(f"{health} || true") or None)


@pytest.fixture
def machine(tmp_path: Path, wheels: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, wheels)
    install = f"opt/bin/pip install --quiet --no-deps dppca*-{OLD}-py3-none-any.whl"
    machine.run(install)
    yield machine
    machine.run("systemctl stop || true")


def test_an_evenings_upgrade_and_the_way_back(machine: Machine, tmp_path: Path) -> None:
    def contribute(name: str) -> dict[str, Any]:
        """Its answer to what it sends; the ledger has one charge, before and after."""
        sent = machine.run(f"dppca-owner --site {name} contribute pain --yes --json")
        budget = json.loads(machine.run(f"dppca-owner --site {name} budget --json"))
        assert [each["study"] for each in budget["releases"]] == ["pain"]
        return dict(json.loads(sent))

    machine.run(
        "dppca-curator pki init --directory authority && dppca-curator pki issue --directory "
        "authority --role curator --name hub --host localhost --output hub && dppca-curator pki "
        "issue --directory authority --role operator --name alice --output alice"
    )
    for name in ("hospital", "clinic"):
        machine.run(
            f"dppca-owner --site {name} init --name {name} --curator $DPPCA_CURATOR && "
            f"dppca-curator pki sign --directory authority --name {name} --request "
            f"{name}/request.pem --output {name}/certificate.pem && cp authority/ca.pem {name}/"
        )
        (tmp_path / name / "rows.csv").write_text("age,sex,work\n" + "40,Male,state\n" * 20)
        (tmp_path / name / "policy.yaml").write_text(policy_text({"survey": "path: rows.csv"}))
    machine.run("systemctl start")
    machine.until_it_serves()
    study = make_study(name="pain", owners=["hospital", "clinic"])
    (tmp_path / "study.json").write_bytes(study.canonical_bytes())
    machine.run("dppca-curator study create study.json --yes")
    machine.run("dppca-curator backup --state state --to backup")  # step 2

    machine.paste(NEW)
    machine.until_it_serves()
    assert machine.version() == NEW
    assert "Nothing is broken" in machine.run("dppca-owner --site hospital doctor")
    before = contribute("hospital")["release_id"]

    # Back: the hospital has charged since and keeps its ledger; the curator takes its backup.
    machine.run("dppca-curator restore backup --state restored")
    machine.variables["STATE"] = "restored"
    machine.paste(OLD)
    machine.until_it_serves()
    assert machine.version() == OLD
    assert contribute("hospital")["release_id"] == before, "the same bytes, sent again"
    contribute("clinic")
    machine.run("dppca-owner --site clinic components pain --wait 300")
    for name in ("hospital", "clinic"):
        assert "Nothing is broken" in machine.run(f"dppca-owner --site {name} doctor")
