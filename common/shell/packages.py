"""Optional packages: an error names a missing one to the user who needs it.

They are the extras of ``pyproject.toml``, and this software's own wheels. A message names the
packages themselves, because a package index may not know this software.

Others, `HIDDEN`, are imported by libraries wherever they lie: pandas by pyarrow and scikit-learn,
to know its values if they meet any; boto3 by `securesystemslib` and tornado by pyiceberg's
tenacity, to sign and to wait in other places. No command has a use for them, and each takes as long
as a whole one. While they are hidden, such an import fails as where they are not installed, for
which it is made.
"""

import sys
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Final

from dppca.common.kernel.errors import SettingError

WHEELS: Final = MappingProxyType(
    {
        "dppca.curator": "dppca-curator",
        "dppca.deploy": "dppca-lab",
        "dppca.common.papers": "dppca-lab",
    }
)
"""Wheels beside ``dppca`` by the packages that they add to it."""
HIDDEN: Final = frozenset({"boto3", "pandas", "tornado"})


class _Hiding:
    """A finder (`importlib.abc.MetaPathFinder`) that is asked first, and finds none of them."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname in HIDDEN:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


_hiding = _Hiding()


def hide_packages() -> None:
    """Hide `HIDDEN` in this process from now on; what is loaded stays."""
    if not are_hidden():
        sys.meta_path.insert(0, _hiding)


def are_hidden() -> bool:
    """Whether this process hides packages: a command of ours does, a notebook does not."""
    return _hiding in sys.meta_path


def show_packages() -> None:
    """Let `HIDDEN` be imported again, for a library that needs one."""
    if are_hidden():
        sys.meta_path.remove(_hiding)


def name_wheel(package: str, purpose: str) -> str:
    """Sentence for a user who lacks a package of `WHEELS`; ``purpose`` as in `require_package`."""
    return (
        f"{purpose} needs the wheel {WHEELS[package]}: install it in the same version as dppca "
        "(docs/how-to/install.md)"
    )


def require_wheel(package: str, *, purpose: str) -> None:
    """Raise `SettingError`, which names the wheel, if a package of `WHEELS` is not installed."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise SettingError(name_wheel(package, purpose))


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
