"""``dppca-simulate faults``: the command of the fault harness, which is in no wheel."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from dppca.common.console import prints
from dppca.common.errors import SettingError

HARNESS = Path("tests/fault_injection/command.py")


def find_faults_command(here: Path = Path(__file__)) -> click.Command:
    """Import the command from the checkout that a file is in; elsewhere, make one that says so."""
    folders = here.resolve().parents
    root = next((folder for folder in folders if (folder / HARNESS).is_file()), None)
    if root is None:
        return _elsewhere
    if str(root) not in sys.path:
        sys.path.append(str(root))
    command: click.Command = import_module("tests.fault_injection.command").faults
    return command


@click.command(
    "faults",
    context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@prints()
def _elsewhere(arguments: tuple[str, ...], as_json: bool) -> None:  # noqa: ARG001 - not for us
    """Inject faults into whole studies; needs a checkout of the source code.

    \b
    Example, in a checkout:
      make faults
    """
    raise SettingError(
        f"the fault harness ({HARNESS.parent}) is not installed with dppca: get the source code of "
        "this version and run `make faults` there, or `.venv/bin/dppca-simulate faults`"
    )
