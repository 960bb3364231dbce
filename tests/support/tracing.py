"""A command of ours that writes down which of our modules it loads, and which of them run.

``tracing.py FILE MODULE ARGUMENTS…`` runs ``MODULE`` like a separate process. At its end ``FILE``
gets JSON: ``loaded`` and ``ran``, paths below the root, and ``others``, the other packages that are
loaded. A module runs where one of its functions is called; what its import does is no call.

Only this process writes. One that it forks, as the curator does at its start for the lines of
gRPC's core, may end after it, and would leave the modules of the moment of the fork in ``FILE``.
"""

import atexit
import json
import os
import runpy
import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import NoReturn

PRODUCT = ("common/", "owner/", "curator/", "deploy/", "dppca/")
ROOT = Path(__file__).resolve().parents[2]
_CALLED: set[tuple[str, str]] = set()


def _note(frame: FrameType, event: str, _: object) -> None:
    if event == "call" and frame.f_code.co_flags & CO_OPTIMIZED:  # no body of a class
        _CALLED.add((frame.f_code.co_filename, frame.f_code.co_name))


def _ours(file: str | None) -> str | None:
    """Path below the root of a module of the product; the package has it behind links."""
    path = None if file is None else Path(file).resolve()
    if path is None or not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT).as_posix()
    return name if name.startswith(PRODUCT) and not name.startswith("common/wire/") else None


def _write(file: Path, process: int) -> None:
    if os.getpid() != process:
        return
    sys.setprofile(None)
    loaded = {_ours(getattr(module, "__file__", None)) for module in [*sys.modules.values()]}
    ran = {_ours(file) for file, name in _CALLED if name != "<module>"}
    others = sorted({name.partition(".")[0] for name in [*sys.modules]} - {"dppca"})
    document = {"loaded": sorted(filter(None, loaded)), "ran": sorted(filter(None, ran))}
    document["others"] = others
    file.write_text(json.dumps(document))


def main(arguments: list[str]) -> None:
    """Trace a module; its exit is this program's."""
    file, module, *rest = arguments
    ends, process = os._exit, os.getpid()

    def end(code: int) -> NoReturn:
        _write(Path(file), process)
        ends(code)

    os._exit = end  # commands end by it, without what `atexit` holds
    atexit.register(_write, Path(file), process)
    sys.argv = [module, *rest]
    threading.setprofile(_note)
    sys.setprofile(_note)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
