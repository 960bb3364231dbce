"""Other libraries in environments and processes of their own."""

import os
import select
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Ask = Callable[..., float]
"""Answers a line; takes the patience in seconds, too."""


class GuestError(RuntimeError):
    """A guest gave no answer, or has no environment; why."""


def find_environment(name: str, *installs: Sequence[str]) -> Path:
    """The interpreter of an environment, made by pip from the default index when first asked for.

    Parameters
    ----------
    installs
        What each call of ``pip install`` is given. What the same calls have made under that name
        is taken as it is.

    Raises
    ------
    GuestError
        A call failed; its last words.
    """
    folder = ROOT / "build/tools" / name
    python, stamp = folder / "bin/python", folder / "installed.txt"
    asked = "\n".join(" ".join(each) for each in installs)
    if stamp.exists() and stamp.read_text() == asked:
        return python
    venv.create(folder, with_pip=True, clear=True)
    for wanted in installs:
        pip = [str(python), "-m", "pip", "install", "--quiet", *wanted]
        done = subprocess.run(pip, check=False, capture_output=True, text=True)
        if done.returncode:
            fault = done.stderr[-300:].strip()
            raise GuestError(f"{name} cannot be installed here: {fault}")
    stamp.write_text(asked)
    return python


class PatienceError(GuestError):
    """An answer took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not done in {seconds:.0f} s")


@contextmanager
def open_guest(python: Path, script: Path, *arguments: str, threads: int) -> Iterator[Ask]:
    """A process that answers every line it is sent with a number, by `serve`.

    Raises
    ------
    GuestError
        By a question: the process ended instead of an answer.
    PatienceError
        By a question that came with a patience in seconds: it took longer, and the process ended.
    """
    limits = {f"{library}_NUM_THREADS": str(threads) for library in ("OPENBLAS", "OMP", "MKL")}
    with (
        tempfile.TemporaryFile("w+") as words,
        subprocess.Popen(
            [str(python), str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            env={**os.environ, **limits, "PYTHONPATH": str(ROOT)},  # for this module
            text=True,
        ) as process,
    ):
        to, back = process.stdin, process.stdout
        assert to is not None
        assert back is not None

        def ask(line: str, patience_s: float | None = None) -> float:
            try:
                to.write(f"{line}\n")
                to.flush()
            except BrokenPipeError:
                with suppress(BrokenPipeError):
                    to.close()
                return parse_answer("")
            if not select.select([back], [], [], patience_s)[0]:
                process.kill()
                raise PatienceError(patience_s or 0.0)
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


def serve(
    answer: Callable[[str], float | None], *, clock: Callable[[], float] = perf_counter
) -> None:
    """Answer every line of the input: by what ``answer`` returns, or the seconds that it took.

    What is printed meanwhile goes to the standard error.
    """
    to, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        begin = clock()
        said = answer(line.strip())
        print(clock() - begin if said is None else said, file=to, flush=True)


def serve_rows(
    calls: Mapping[str, Callable[[], Any]], *, clock: Callable[[], float] = process_time
) -> None:
    """Answer ``fit``, ``rows``, ``peak`` in MiB, and ``save FILE.npy`` of what was made last."""
    import numpy as np

    rows: Any = None

    def answer(line: str) -> float | None:
        nonlocal rows
        word, _, target = line.partition(" ")
        if word == "peak":
            return read_peak_mib()
        if word == "save":
            np.save(target, np.asarray(rows, np.float64))
        else:
            rows = calls[word]()
        return None

    serve(answer, clock=clock)


def read_peak_mib(pid: int | str = "self") -> float:
    """Most memory that a process has held, in MiB.

    Not ``ru_maxrss``, which a new program takes over from the process that started it.
    """
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024
