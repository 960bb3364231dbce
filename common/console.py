"""The shell around every command: errors to exit codes, JSON or text, progress.

A command raises errors of `common.errors`; `run` prints the message and leaves with the class's
exit code. With ``--json`` standard output carries exactly one JSON document, of the result or of
the error. Progress goes to standard error, only on a terminal, and only after a second.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from common.errors import DppcaError

USAGE_EXIT_CODE = 2
UNEXPECTED_EXIT_CODE = 70
INTERRUPTED_EXIT_CODE = 130
_PROGRESS_AFTER_S = 1.0

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def run(group: click.Command, arguments: list[str] | None = None) -> NoReturn:
    """Run a command line to its end and leave the process with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    try:
        code = group.main(args=given, standalone_mode=False)
    except click.exceptions.Abort:
        _fail("interrupted", "Interrupted", INTERRUPTED_EXIT_CODE, as_json=as_json)
    except click.ClickException as error:
        if not as_json:
            error.show()
            raise SystemExit(USAGE_EXIT_CODE) from None
        _fail(error.format_message(), "UsageError", USAGE_EXIT_CODE, as_json=True)
    except DppcaError as error:
        _fail(str(error) or error.public, type(error).__name__, error.exit_code, as_json=as_json)
    except KeyboardInterrupt:
        _fail("interrupted", "Interrupted", INTERRUPTED_EXIT_CODE, as_json=as_json)
    except BrokenPipeError:
        # The reader has gone, as with `| head`; there is nobody left to tell.
        sys.stderr.close()
        raise SystemExit(INTERRUPTED_EXIT_CODE) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def emit(document: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a command's result in the form that was asked for."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
    elif text:
        click.echo(text)


class Progress:
    """How far a piece of work has come."""

    def __init__(self, description: str, total: int | None, *, shown: bool, unit: str = "") -> None:
        self._description = description
        self._unit = unit
        self._total = total
        self._shown = shown
        self._done = 0
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def advance(self, amount: int = 1) -> None:
        """Count ``amount`` more; draws once the work has taken a second."""
        self._done += amount
        if not self._shown:
            return
        if self._bar is None:
            if time.monotonic() - self._started < _PROGRESS_AFTER_S:
                return
            self._open()
        self._bar.update(self._task, completed=self._done, rate=self._rate())

    def _rate(self) -> str:
        elapsed = time.monotonic() - self._started
        if not self._unit or not elapsed:
            return ""
        return f"{self._done / elapsed:,.0f} {self._unit}/s"

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._description, total=self._total, rate="")
        self._bar.start()


@contextmanager
def progress(
    description: str, total: int | None = None, *, enabled: bool = True, unit: str = ""
) -> Iterator[Progress]:
    """Show progress on a terminal while the block runs; None as total where it is unknown.

    Where what is counted has a name (``unit="rows"``), its rate per second is shown too.
    """
    bar = Progress(description, total, shown=enabled and sys.stderr.isatty(), unit=unit)
    try:
        yield bar
    finally:
        bar.close()


def _fail(message: str, name: str, code: int, *, as_json: bool) -> NoReturn:
    if as_json:
        fault = {"class": name, "message": message, "exit_code": code}
        click.echo(json.dumps({"error": fault}, ensure_ascii=False))
    click.echo(f"error: {message}", err=True)
    raise SystemExit(code)
