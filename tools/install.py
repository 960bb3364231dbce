"""Installation of locked packages, by uv where it can and by pip where it cannot.

::

    python tools/install.py FOLDER LOCK... [--editable]   into an environment, made if missing
    python tools/install.py pip ARGUMENT...               pip, which no environment here has

The standard library alone is needed, of Python 3.11 or newer. Exactly the bytes of the lock files
are installed (``--require-hashes``, nothing is resolved), uv's own too, whose pin is in
``tools.lock``. pip is the wheel that Python carries for new environments; it fetches uv, and tells
which index, certificates and proxy its configuration names, since uv reads none of that. Where uv
has no wheel or cannot install, one line says so and pip does it.

With ``--editable`` the checkout is installed too. Python compiles each module when it is first
imported; where ``PYTHONDONTWRITEBYTECODE`` is set, every command would do so again, and what the
checkout imports is compiled here, once.
"""

import ast
import compileall
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
UV = ROOT / "build" / "tools" / "uv"
PIP = ROOT / "build" / "tools" / "pip"
WHEELS = "usr/share/python-wheels"
ROOMS = ("common", "curator", "deploy", "dppca", "owner")
PROJECTS = {
    "dppca": ROOT,
    "dppca-verify": ROOT / "wheels" / "verify",
    "dppca-curator": ROOT / "wheels" / "curator",
    "dppca-lab": ROOT / "wheels" / "lab",
}
"""Wheels of the checkout, DPPCA itself first: an earlier one holds the others' commands, too."""
_PIN = re.compile(r"^uv==(\S+).*?(?<!\\)$", re.MULTILINE | re.DOTALL)
_INDEXES = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "trusted-host": "--allow-insecure-host",
}
"""Options of uv for pip's; a value of pip may hold several, divided by blanks."""
_VARIABLES = {"cert": "SSL_CERT_FILE", "proxy": "ALL_PROXY"}


class InstallError(Exception):
    """The packages cannot be installed; why, and what to do."""


def bundled_pip() -> Path:
    """Return the wheel of pip that this Python carries, or Debian's; raise `InstallError`."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR")]  # where Debian and Fedora keep it
    with suppress(ImportError):
        spec = importlib.util.find_spec("ensurepip")
        if spec is not None and spec.origin:
            folders.append(Path(spec.origin).parent / "_bundled")
    folders += [Path("/", WHEELS), PIP / WHEELS]
    wheel = _find_pip(folders)
    if wheel is None and shutil.which("apt-get") is not None:
        _say("fetching python3-pip-whl, which this Python lacks, from Debian")
        _fetch_debian_pip()
        wheel = _find_pip(folders)
    if wheel is None:
        raise InstallError(
            "this Python carries no pip, so nothing can be fetched: install python3-venv"
        )
    return wheel


def _find_pip(folders: Iterable[str | Path | None]) -> Path | None:
    wheels = (each for folder in folders if folder for each in Path(folder).glob("pip-*.whl"))
    return next(wheels, None)


def _fetch_debian_pip() -> None:
    """Unpack Debian's package of pip's wheel, whose signature apt checks; no rights are needed."""
    with tempfile.TemporaryDirectory() as scratch:
        asked = ["apt-get", "download", "-qq", "python3-pip-whl"]
        subprocess.run(asked, check=False, cwd=scratch)
        for package in Path(scratch).glob("*.deb"):
            PIP.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg-deb", "--extract", package, PIP], check=False)


def run_pip(*arguments: object, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run pip with some arguments; ``capture`` keeps what it prints."""
    return subprocess.run(
        [sys.executable, "-m", "pip", *map(str, arguments)],
        check=False,
        capture_output=capture,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": str(bundled_pip()),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        },
    )


def find_uv() -> Path | None:
    """Return uv of the locked version, fetched when first wanted; None if it cannot be had."""
    found = _PIN.search((ROOT / "requirements" / "tools.lock").read_text())
    if found is None:
        raise InstallError("requirements/tools.lock has no uv: run `make lock`")
    folder = UV / found[1]
    program = folder / "bin" / ("uv.exe" if os.name == "nt" else "uv")
    if program.is_file():
        return program
    with tempfile.TemporaryDirectory() as scratch:
        pin = Path(scratch) / "uv.lock"
        pin.write_text(found[0] + "\n")
        done = run_pip(
            *("install", "--quiet", "--no-deps", "--no-compile", "--require-hashes"),
            *("--only-binary", ":all:", "--target", folder, "--requirement", pin),
            capture=True,
        )
    return program if done.returncode == 0 and program.is_file() else None


def index_settings(configured: str) -> tuple[list[str], dict[str, str]]:
    """Translate what ``pip config list`` prints to options and variables of uv.

    A variable of the environment, which pip lists as ``:env:``, wins over a file.
    """
    told: dict[str, str] = {}
    lines = configured.splitlines()
    for line in sorted(lines, key=lambda each: each.startswith(":env:")):
        name, found, value = line.partition("=")
        if found:
            told[name.rpartition(".")[2]] = str(ast.literal_eval(value))
    options = [
        part
        for name, option in _INDEXES.items()
        for value in told.get(name, "").split()
        for part in (option, value)
    ]
    if "--index" in options:  # for pip all indexes are one
        options += ["--index-strategy", "unsafe-best-match"]
    if told.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        options.append("--no-index")
    return options, {theirs: told[ours] for ours, theirs in _VARIABLES.items() if ours in told}


def install(folder: Path, locks: Sequence[str], *, editable: bool) -> None:
    """Install lock files into an environment; see the module. Raise `InstallError`."""
    python = _find_python(folder)
    if not python.exists():
        _say(f"making {folder}")
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    wanted: list[object] = []
    for lock in locks:
        wanted += ["--requirement", ROOT / "requirements" / f"{lock}.lock"]
    n_packages = len({pin for lock in locks for pin in _pinned(lock)})
    groups: dict[str, tuple[object, ...]] = {
        f"up to {n_packages} locked packages": ("--require-hashes", *wanted)
    }
    if editable:
        ours, *further = [("--editable", place) for place in PROJECTS.values()]
        groups["DPPCA itself"] = ("--no-build-isolation", *ours)
        groups["its further wheels"] = ("--no-build-isolation", *chain(*further))
    uv = find_uv()
    options, variables = index_settings(run_pip("config", "list", capture=True).stdout)
    for what, group in groups.items():
        _say(f"installing {what} into {folder}")
        trouble = "uv has no wheel for this system, or cannot be fetched"
        if uv is not None:
            trouble = _by_uv(uv, python, group, options, variables)
        if trouble:
            _say(f"uv cannot do it ({trouble}); pip does, which takes some minutes")
            asked = ("--python", python, "install", "--quiet", "--no-deps", "--no-compile")
            if run_pip(*asked, *group).returncode:
                raise InstallError("the packages could not be installed: see the lines above")


def compile_imports(folder: Path) -> None:
    """Compile the checkout, and by importing it what it needs, with the Python of ``folder``."""
    _say("compiling what the commands import, once")
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    asked = [str(_find_python(folder)), __file__, "--compile"]
    subprocess.run(asked, check=False, env=variables, cwd=ROOT)


def _compile_here() -> None:
    sys.path[:] = [each for each in sys.path if each != str(ROOT / "tools")]
    for room in ROOMS:
        compileall.compile_dir(ROOT / room, quiet=2)
    for name in sorted(_imported(ROOT / room for room in ROOMS)):
        # A package that is not installed here, or only works on another system.
        with suppress(Exception):
            importlib.import_module(name)


def _imported(rooms: Iterable[Path]) -> Iterator[str]:
    """Names of modules that sources below some folders import, at their heads or in functions."""
    for room in rooms:
        for path in room.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    yield from (each.name for each in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module


def _by_uv(
    uv: Path,
    python: Path,
    group: Sequence[object],
    options: Sequence[str],
    variables: Mapping[str, str],
) -> str:
    """Let uv install; return why it could not, in one line, or nothing."""
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    line = [uv, "pip", "install", *quiet, "--python", python, "--no-deps", *options, *group]
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            list(map(str, line)),
            check=False,
            stderr=None if not quiet else said,
            env={**variables, **os.environ},
        )
        said.seek(0)
        words = [each.strip(" ×╰─▶") for each in said.read().splitlines() if each.strip()]
    if done.returncode == 0:
        return ""
    return words[0] if words else f"exit code {done.returncode}"


def _pinned(lock: str) -> set[str]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    return {line.partition("==")[0] for line in text.splitlines() if "==" in line.partition(" ")[0]}


def _find_python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _say(text: object, stream: TextIO | None = None) -> None:
    stream = stream or sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def main(arguments: Sequence[str]) -> int:
    """Install, or run pip; return the exit code."""
    if arguments[:1] == ["--compile"]:
        _compile_here()
        return 0
    try:
        if arguments[:1] == ["pip"]:
            return run_pip(*arguments[1:]).returncode
        names = [each for each in arguments if not each.startswith("-")]
        begun, editable = time.monotonic(), "--editable" in arguments
        install(Path(names[0]), names[1:], editable=editable)
        if editable and sys.dont_write_bytecode:
            compile_imports(Path(names[0]))
        _say(f"installed in {time.monotonic() - begun:.0f} s")
    except InstallError as error:
        _say(error, sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
