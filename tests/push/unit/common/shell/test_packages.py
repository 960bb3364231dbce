"""Who needs a package that is not there is told its name."""

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.shell.packages import require_package


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
