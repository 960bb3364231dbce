"""Who needs a package that is not there is told its name."""

from __future__ import annotations

import json

import pytest

from dppca.common.errors import SettingError
from dppca.common.packages import require_package


def test_a_package_that_is_there_is_imported() -> None:
    assert require_package("json", purpose="a test") is json


@pytest.mark.parametrize(
    ("module", "package", "name"),
    [
        ("no_such.dbapi", None, "no-such"),
        ("json.no_such_part", None, "json"),
        ("no_such", "its-other-name", "its-other-name"),
    ],
)
def test_one_that_is_missing_is_named_as_pip_knows_it(
    module: str, package: str | None, name: str
) -> None:
    with pytest.raises(SettingError, match=rf"^a plot needs {name}: pip install {name}$"):
        require_package(module, purpose="a plot", package=package)
