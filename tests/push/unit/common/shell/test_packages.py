"""Who needs a package that is not there is told its name; others are kept out."""

import subprocess
import sys

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.shell.packages import HIDDEN, WHEELS, require_package, require_wheel

_IMPORTS = {
    "pandas": "import pyarrow; pyarrow.array([1.0, None]).to_numpy(zero_copy_only=False)",
    "boto3": "import securesystemslib.dsse",
    "tornado": "import tenacity",
}


@pytest.mark.parametrize(
    ("modules", "needs", "install"),
    [
        (["no_such.dbapi"], "no-such", "no-such"),
        (["json.no_such_part"], "json", "json"),
        (["json", "no_such", "nor_this"], "no-such and nor-this", "no-such nor-this"),
    ],
)
def test_those_that_are_missing_are_named_as_pip_knows_them(
    modules: list[str], needs: str, install: str
) -> None:
    with pytest.raises(SettingError, match=rf"^a plot needs {needs}: pip install {install}$"):
        require_package(*modules, purpose="a plot")


def test_a_wheel_that_is_missing_is_named_and_one_that_is_here_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for package in WHEELS:
        require_wheel(package, purpose="a plan")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(SettingError, match=r"^a plan needs the wheel dppca-curator: install it in"):
        require_wheel("dppca.curator", purpose="a plan")


def _loaded(program: str) -> set[str]:
    line = f"import sys; from dppca.common.shell.packages import *; {program}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    return {*done.stdout.split()}


def test_each_package_that_is_hidden_has_one_that_would_import_it() -> None:
    assert _IMPORTS.keys() == HIDDEN


@pytest.mark.parametrize("name", sorted(_IMPORTS))
def test_who_imports_a_package_that_is_hidden_goes_on_without_it(name: str) -> None:
    assert name in _loaded(_IMPORTS[name]), "another library: nothing to hide any more"
    assert name not in _loaded(f"hide_packages(); {_IMPORTS[name]}")


@pytest.mark.parametrize("name", sorted(_IMPORTS))
def test_what_is_shown_again_can_be_imported(name: str) -> None:
    program = f"hide_packages(); hide_packages(); {_IMPORTS[name]}; show_packages(); import {name}"
    assert name in _loaded(program)
