"""Optional packages: an error names a missing one to the user who needs it.

They are the extras of ``pyproject.toml``. A message names the packages themselves, because a
package index may not know this software.
"""

from importlib import import_module
from types import ModuleType

from dppca.common.kernel.errors import SettingError


def require_package(module: str, *others: str, purpose: str) -> ModuleType:
    """Import all modules and return the first.

    ``module`` and ``others`` are names in Python; pip knows each by its first part, with hyphens
    for underscores. ``purpose`` is the feature that needs them, as the beginning of a sentence.
    Raise `SettingError`, which says how to install them, if one or more are not installed.
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
