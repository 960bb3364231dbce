"""A command on a terminal of a given width, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

from tests.support.patience import WAIT_S


def run_on_terminal(module: str, *arguments: object, width: int) -> list[str]:
    """The lines that ``python -m module`` prints on a terminal; it must succeed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    ) as process:
        os.close(theirs)
        printed = _read_all(ours)
        _, said = process.communicate(timeout=WAIT_S)
    os.close(ours)
    assert process.returncode == 0, said.decode()
    return printed.decode().splitlines()


def _read_all(terminal: int) -> bytes:
    parts = []
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so of a terminal that nobody holds any more
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def wider_than(lines: list[str], width: int) -> list[str]:
    """Lines that do not fit, but for a single word, which stays in one piece to be copied."""
    return [line for line in lines if len(line) > width and len(line.split()) > 1]
