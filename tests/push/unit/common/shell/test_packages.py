"""Who needs a package that is not there is told its name."""

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.shell import packages
from dppca.common.shell.packages import WHEELS, require_package, require_wheel


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
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    with pytest.raises(SettingError, match=r"^a plan needs the wheel dppca-curator: install it in"):
        require_wheel("dppca.curator", purpose="a plan")
