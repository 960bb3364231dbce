"""Packages that not every installation has: who needs one that is missing is told its name.

They are the extras of ``pyproject.toml``. A message names the packages themselves: no index need
know this software by the name that it has.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from dppca.common.errors import SettingError


def require_package(module: str, *, purpose: str, package: str | None = None) -> ModuleType:
    """The module, imported.

    Parameters
    ----------
    module
        Its name in Python.
    purpose
        What needs it, as the beginning of a sentence.
    package
        Its name for pip, where that differs by more than underscores.

    Raises
    ------
    SettingError
        It is not installed; how to install it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = package or module.partition(".")[0].replace("_", "-")
        raise SettingError(f"{purpose} needs {name}: pip install {name}") from error
