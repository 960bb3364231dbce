"""Packages that not every installation has: who needs one that is missing is told its name.

They are the extras of ``pyproject.toml``. A message names the packages themselves: no index need
know this software by the name that it has.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from dppca.common.errors import SettingError


def require_package(module: str, *others: str, purpose: str) -> ModuleType:
    """The module, imported; so are the others.

    Parameters
    ----------
    module, others
        Names in Python. pip knows each by its first part, with hyphens for underscores.
    purpose
        What needs them, as the beginning of a sentence.

    Raises
    ------
    SettingError
        One or more are not installed; how to install these.
    """
    modules, missing = list[ModuleType](), list[str]()
    for name in (module, *others):
        try:
            modules.append(import_module(name))
        except ImportError:
            missing.append(name.partition(".")[0].replace("_", "-"))
    if missing:
        raise SettingError(
            f"{purpose} needs {' and '.join(missing)}: pip install {' '.join(missing)}"
        )
    return modules[0]
