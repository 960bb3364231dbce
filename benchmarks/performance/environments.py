"""Other libraries in environments and processes of their own."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

Ask = Callable[[str, float | None], float | None]


class GuestError(RuntimeError):
    """A guest ended without an answer; its last words."""


def make_environment(folder: Path, *installs: Sequence[str]) -> tuple[Path | None, str]:
    """An environment, made by pip from the default index, one call after the other.

    One that the same calls have made in that folder is taken as it is.

    Parameters
    ----------
    installs
        What each call of ``pip install`` is given.

    Returns
    -------
    interpreter, fault
        The interpreter is None where a call failed, and the fault its last words.
    """
    python, stamp = folder / "bin/python", folder / "installed.txt"
    asked = "\n".join(" ".join(each) for each in installs)
    if stamp.exists() and stamp.read_text() == asked:
        return python, ""
    venv.create(folder, with_pip=True, clear=True)
    for wanted in installs:
        pip = [str(python), "-m", "pip", "install", "--quiet", *wanted]
        done = subprocess.run(pip, check=False, capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr[-300:]
    stamp.write_text(asked)
    return python, ""


@contextmanager
def open_guest(python: Path, script: Path, *arguments: str, threads: int) -> Iterator[Ask]:
    """A process that answers every line it is sent with a number, mostly the seconds it took.

    Its answer is None, and the process ended, where that takes longer than the patience it is
    asked with, in seconds.

    Raises
    ------
    GuestError
        By a question: the process ended instead of an answer.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for library in ("OPENBLAS", "OMP", "MKL"):
        environment[f"{library}_NUM_THREADS"] = str(threads)
    with (
        tempfile.TemporaryFile("w+") as words,
        subprocess.Popen(
            [str(python), str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            env=environment,
            text=True,
        ) as process,
    ):
        to, back = process.stdin, process.stdout
        assert to is not None
        assert back is not None

        def ask(line: str, patience_s: float | None = None) -> float | None:
            try:
                to.write(f"{line}\n")
                to.flush()
            except BrokenPipeError:
                with suppress(BrokenPipeError):
                    to.close()
                return parse_answer("")
            if not select.select([back], [], [], patience_s)[0]:
                process.kill()
                return None
            return parse_answer(back.readline())

        def parse_answer(line: str) -> float:
            try:
                return float(line)
            except ValueError:
                process.kill()
                code = process.wait()
                words.seek(0)
                said = words.read().strip()[-300:]
                raise GuestError(said or line.strip() or f"it ended with {code}") from None

        yield ask
        if process.poll() is None:
            to.close()
