from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy import sbom
from deploy.audit import UNKNOWN, WEAK, verdict
from deploy.lock import FOLDER, LOCKS, ROOT, digest_of, requirements
from deploy.pins import Pin, environment_of, read_pins

PYTHONS = ["3.11", "3.12", "3.13"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def text_of(lock: str) -> str:
    return (FOLDER / f"{lock}.lock").read_text()


def pins_for(lock: str, python: str) -> dict[str, Pin]:
    environment = environment_of(python)
    pins = [pin for pin in read_pins(text_of(lock)) if pin.applies(environment)]
    assert len({pin.name for pin in pins}) == len(pins), "one version of each"
    return {pin.name: pin for pin in pins}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_of_the_requirements_in_pyproject(lock: str) -> None:
    digest = digest_of(requirements(PROJECT)[lock])
    assert digest in text_of(lock).splitlines()[1], "pyproject.toml has changed: run `make lock`"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", LOCKS)
def test_what_is_asked_for_is_pinned_within_its_bounds(lock: str, python: str) -> None:
    pins = pins_for(lock, python)
    for text in requirements(PROJECT)[lock]:
        wanted = Requirement(text)
        if wanted.marker is not None and not wanted.marker.evaluate(environment_of(python)):
            continue
        pin = pins[canonicalize_name(wanted.name)]
        assert pin.version in wanted.specifier, text


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_digests_and_nothing_names_a_registry(lock: str) -> None:
    assert read_pins(text_of(lock))
    assert "://" not in text_of(lock)
    assert "index" not in text_of(lock).replace("importlib", "")


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("part", ["runtime", "build"])
def test_what_is_deployed_is_what_is_tested(part: str, python: str) -> None:
    whole = pins_for("dev", python)
    for name, pin in pins_for(part, python).items():
        assert (whole[name].version, whole[name].sha256) == (pin.version, pin.sha256)


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy>=2 --hash=sha256:" + "0" * 64,
        "numpy==2.0",
        "numpy==2.0 --hash=md5:" + "0" * 32,
        "numpy==2.0 --hash=sha256:" + "0" * 63,
        "numpy @ https://example.org/numpy.whl --hash=sha256:" + "0" * 64,
        "--index-url https://example.org/simple",
        "-e .",
    ],
)
def test_anything_but_a_pin_with_digests_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="pin"):
        read_pins(f"{line}\n")


def test_set_up_and_image_install_locked_bytes_only() -> None:
    for path in ("deploy/setup.sh", "deploy/Dockerfile", "Makefile"):
        text = (ROOT / path).read_text().replace("\\\n", " ")
        for line in text.splitlines():
            words = line.split()
            if "install" in words and ("pip" in words or line.lstrip().startswith('"$venv')):
                ours = "--editable ." in line or "apt-get" in line
                assert ours or "--require-hashes" in line or "PIP_REQUIRE_HASHES=1" in text, line


@pytest.mark.parametrize("python", PYTHONS)
def test_the_sbom_lists_the_locked_packages_and_conforms_to_the_schema(python: str) -> None:
    text = sbom.document(python)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    listed = {
        part["name"]: (part["version"], {digest["content"] for digest in part["hashes"]})
        for part in document["components"]
    }
    pins = pins_for("runtime", python)
    assert listed == {name: (pin.version, set(pin.sha256)) for name, pin in pins.items()}
    assert document["metadata"]["component"]["name"] == "dppca"
    for part in document["components"]:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
    assert sbom.document(python) == text, "the same lock, the same bytes"


def test_a_document_that_is_no_sbom_is_found_by_its_schema() -> None:
    text = sbom.document("3.12").replace('"purl":', '"pearl":', 1)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is not None


def _answer(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


def test_an_audit_that_could_not_ask_does_not_pass_for_a_good_one(tmp_path: Path) -> None:
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
    assert "c 2: PYSEC-1, mended in 3" in lines
    for answer in ("", "{}", _answer()):
        code, lines = verdict(answer, "no network\n")
        assert code == UNKNOWN
        assert lines[0].startswith("NOT AUDITED")
