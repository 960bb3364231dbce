"""The lock, the audit and the bill of materials: what we promise of them, without a network."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dppca.common.kernel.errors import SettingError
from tests.support.sites import make_proved_site
from tools.audit import UNKNOWN, WEAK, verdict
from tools.install import PROJECTS, index_settings
from tools.lock import FOLDER, LOCKS, ROOT, read_pins, requirements_digest
from tools.sbom import document

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PIN = re.compile(r"([a-z0-9-]+)==([\w.]+)( ; [^@:]+?)?((?: --hash=sha256:[0-9a-f]{64})+)")


def pins_for(lock: str, python: str) -> dict[str, tuple[str, frozenset[str]]]:
    found = [PIN.fullmatch(pin) for pin in read_pins(lock, python)]
    pins = {pin[1]: (pin[2], frozenset(re.findall("[0-9a-f]{64}", pin[4]))) for pin in found if pin}
    assert len(pins) == len(found), "one version of each"
    return pins


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_of_the_requirements_in_pyproject(lock: str) -> None:
    head = (FOLDER / f"{lock}.lock").read_text().splitlines()[1]
    assert requirements_digest() in head, "pyproject.toml has changed: run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_digests_and_nothing_names_a_registry(lock: str) -> None:
    pins = read_pins(lock)
    assert pins
    assert [pin for pin in pins if not PIN.fullmatch(pin)] == []
    assert "://" not in (FOLDER / f"{lock}.lock").read_text()


@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_deployed_is_pinned_within_its_bounds_and_is_what_is_tested(python: str) -> None:
    whole, deployed = pins_for("dev", python), pins_for("runtime", python)
    for lock in ("demo", "runtime", "site", "verify", "build"):
        assert pins_for(lock, python).items() <= whole.items()
    extras = PROJECT["project"]["optional-dependencies"]
    for wanted in map(Requirement, extras["page"] + extras["plots"]):
        assert canonicalize_name(wanted.name) in pins_for("site", python)
    for wanted in map(Requirement, PROJECT["project"]["dependencies"]):
        if wanted.name in PROJECTS:
            continue
        assert deployed[canonicalize_name(wanted.name)][0] in wanted.specifier
    assert {*PROJECT["build-system"]["requires"]} <= {*PROJECT["dependency-groups"]["build"]}


def test_the_further_wheels_ask_for_nothing_that_the_locks_do_not_hold() -> None:
    """What they need of others is an extra of the root, which the locks are made from."""
    extras = PROJECT["project"]["optional-dependencies"]
    ours = [f"{name}=={PROJECT['project']['version']}" for name in PROJECTS]
    for place in [*PROJECTS.values()][2:]:
        of = tomllib.loads((place / "pyproject.toml").read_text())["project"]
        groups = [of["dependencies"], *of.get("optional-dependencies", {}).values()]
        wanted = {line for group in groups for line in group}
        asked = {line for line in wanted if re.sub(r"\[\w+\]", "", line) not in ours}
        assert asked <= {line for each in ("curator", "simulate", "demo") for line in extras[each]}


def test_set_up_and_image_install_locked_bytes_only() -> None:
    for path in ("deploy/Dockerfile", "deploy/compose.sh", "deploy/setup.sh", "Makefile"):
        text = (ROOT / path).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            words = line.split()
            if "install" in words and ("pip" in words or "uv" in words):
                ours = "--editable ." in line or "apt-get" in line
                assert ours or "--require-hashes" in line or "PIP_REQUIRE_HASHES=1" in text, line


def test_the_demo_needs_a_third_of_what_tests_need_and_no_pandas() -> None:
    demo, whole = pins_for("demo", "3.11"), pins_for("dev", "3.11")
    assert 3 * len(demo) <= len(whole)
    assert {"dppca", "pandas", "patsy"} & demo.keys() == set()
    asked = [*map(Requirement, PROJECT["project"]["optional-dependencies"]["simulate"][1:])]
    for wanted in [*asked, Requirement("statsmodels"), Requirement("editables")]:
        assert canonicalize_name(wanted.name) in demo


@pytest.mark.parametrize(
    ("configured", "options", "variables"),
    [
        ("", [], {}),
        (
            "global.cert='/etc/ca.pem'\nglobal.index-url='https://mirror.example/simple'",
            ["--default-index", "https://mirror.example/simple"],
            {"SSL_CERT_FILE": "/etc/ca.pem"},
        ),
        (
            ":env:.index-url='https://b.example'\nglobal.index-url='https://a.example'\n"
            "install.find-links='/wheels /more'",
            [
                *("--default-index", "https://b.example"),
                *("--find-links", "/wheels", "--find-links", "/more"),
            ],
            {},
        ),
        (
            "global.extra-index-url='\\nhttps://a.example\\nhttps://b.example'\n"
            "global.proxy='http://proxy.example:3128'\nglobal.trusted-host='a.example'",
            [
                *("--index", "https://a.example", "--index", "https://b.example"),
                *("--allow-insecure-host", "a.example", "--index-strategy", "unsafe-best-match"),
            ],
            {"ALL_PROXY": "http://proxy.example:3128"},
        ),
        ("global.no-index='true'\nglobal.timeout='60'", ["--no-index"], {}),
    ],
)
def test_uv_is_told_what_pip_is_configured_with(
    configured: str, options: list[str], variables: dict[str, str]
) -> None:
    assert index_settings(configured) == (options, variables)


def test_the_sbom_lists_what_a_python_installs_with_every_digest() -> None:
    text = document("3.12")  # validated by `cyclonedx-py`; another Python than the oldest
    bill = json.loads(text)
    listed = {
        part["name"]: (
            part["version"],
            frozenset(h["content"] for each in part["externalReferences"] for h in each["hashes"]),
        )
        for part in bill["components"]
    }
    assert listed == pins_for("runtime", "3.12")
    for part in bill["components"]:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
    assert bill["metadata"]["component"]["name"] == "dppca"
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert document("3.12", "--no-validate") == text, "the same lock, the same bytes"


def _answer(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


def test_an_audit_that_could_not_ask_does_not_pass_for_a_good_one() -> None:
    good: dict[str, object] = {"name": "a", "version": "1", "vulns": []}
    skipped: dict[str, object] = {"name": "b", "skip_reason": "not found"}
    weak: dict[str, object] = {
        "name": "c",
        "version": "2",
        "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}],
    }
    assert verdict(_answer(good), "") == (0, ["1 packages, no known weakness"])
    code, lines = verdict(_answer(good, skipped), "")
    assert code == UNKNOWN
    assert lines[0].startswith("NOT AUDITED: 1 of 2 packages")
    code, lines = verdict(_answer(weak, skipped), "")
    assert code == WEAK
    assert lines[0] == "c 2: PYSEC-1, mended in 3"
    assert lines[1].startswith("NOT AUDITED")
    for answer in ("", "{}", "[]", _answer()):
        code, lines = verdict(answer, "no network\n")
        assert code == UNKNOWN
        assert lines == ["NOT AUDITED: no package could be looked up (no network)"]


_ONLY = """
import sys
from importlib.metadata import packages_distributions
from packaging.utils import canonicalize_name

allowed = set(sys.argv.pop(1).split())
homes = packages_distributions()


class Absent:
    def find_spec(self, name, path=None, target=None):
        homes_of = {canonicalize_name(each) for each in homes.get(name.partition(".")[0], ())}
        if homes_of and not homes_of & allowed:
            raise ModuleNotFoundError(name=name)


sys.meta_path.insert(0, Absent())
from importlib import import_module
import_module(sys.argv.pop(1)).main()
"""


VERIFIER = "dppca.common.verification.cli"


def _with_the_verifier_alone(
    *arguments: object, program: str = VERIFIER
) -> subprocess.CompletedProcess[str]:
    """A program where the packages of `verify.lock` are installed, and no others."""
    installed = " ".join(["dppca", *pins_for("verify", "3.11")])
    line = [sys.executable, "-c", _ONLY, installed, program, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True)


def test_files_are_verified_with_the_packages_of_the_verifier_alone(tmp_path: Path) -> None:
    made = make_proved_site(tmp_path / "site")
    assert made.site.run("synthesize", "site-test", "--rows", "20")[0] == 0
    (tmp_path / "ca.pem").write_bytes(made.ca)
    files = sorted(each for each in made.components.parent.iterdir() if each.suffix != ".json")
    assert {each.suffix for each in files} == {".npz", ".parquet"}
    for file in files:
        done = _with_the_verifier_alone("verify", file, "--ca", tmp_path / "ca.pem")
        assert done.stdout.startswith("VERIFIED"), done.stderr
        assert done.returncode == 0


@pytest.mark.parametrize(
    "question",
    [
        "mean age",
        "ols age sex",
        "ols sex=Male work --variance sandwich",
        "components",
        "independence sex work",
    ],
)
def test_questions_are_answered_with_the_packages_of_the_verifier_alone(question: str) -> None:
    edition = ROOT / "tests/golden/editions/0.1.0-owner"
    file = edition / "site/studies/edition/components.npz"
    done = _with_the_verifier_alone("estimate", file, *question.split(), "--ca", edition / "ca.pem")
    assert done.returncode == 0, done.stderr
    assert "720 rows of" in done.stdout


def test_the_verifier_asks_for_the_groups_packages_and_nothing_else() -> None:
    project = tomllib.loads((PROJECTS["dppca-verify"] / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == PROJECT["dependency-groups"]["verify"]


def test_a_command_that_the_verifier_has_no_packages_for_names_one(tmp_path: Path) -> None:
    done = _with_the_verifier_alone("--site", tmp_path, "doctor", program="dppca.owner.cli")
    assert done.returncode == SettingError.exit_code
    assert "is not installed here" in done.stderr
    assert "Traceback" not in done.stderr
