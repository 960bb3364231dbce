"""The shell around every command: errors to exit codes, JSON or text, progress.

A command raises errors of `dppca.common.kernel.errors`; `run` prints the message and exits with the
class's exit code. With ``--json`` standard output carries exactly one JSON document, of the result
or of the error. Progress goes to standard error, only on a terminal, and only after a second.

All text for people goes through `say`, and every document through `emit`: invisible characters,
such as the escape sequences of a terminal, are written as escapes
(`dppca.common.kernel.documents.names`), because a study, a curator or a data file may contain them.
"""

import gc
import io
import json
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from dppca.common.kernel.documents.amounts import is_numeral, pointed
from dppca.common.kernel.documents.names import escaped_json, nearest_name, shown
from dppca.common.kernel.documents.values import ErrorDocument, to_document
from dppca.common.kernel.errors import DppcaError, SettingError
from dppca.common.shell.packages import hide_packages
from dppca.common.shell.pasting import pasted, repeat_options
from dppca.common.shell.shutdown import run_exit_hooks

USAGE_EXIT_CODE = 2  # click's
UNEXPECTED_EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED_EXIT_CODE = 130  # 128 + SIGINT, as shells say it
ASK_S = 2.0
"""Longest wait for another machine's names, in seconds."""
_PROGRESS_AFTER_S = 1.0  # shorter work shows no bar
_ALLOCATIONS = 100_000  # of containers, before Python looks for garbage
_WHOLE = 1000  # characters; longer than any first sentence

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
"""Types of a command's arguments; they need not exist."""
KNOWN_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_Command = TypeVar("_Command", bound=Callable[..., object])


class UnprintedError(Exception):
    """Standard output takes nothing, such as a file on a full disk; all else was done."""


class Whole(click.IntRange):
    """Whole number of digits alone: ``1_0``, which Python takes for 10, is a usage error."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; a message of click if it is none."""
        _require_numeral(self, value, param, ctx)
        return int(super().convert(value, param, ctx))


class Real(click.FloatRange):
    """Number of digits, one point and an exponent alone, as `Whole`."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; a message of click if it is none."""
        _require_numeral(self, value, param, ctx)
        return float(super().convert(value, param, ctx))


def _require_numeral(
    kind: click.IntRange | click.FloatRange,
    value: Any,
    param: click.Parameter | None,
    ctx: click.Context | None,
) -> None:
    if isinstance(value, str) and not is_numeral(value):
        kind.fail(f"{value!r} is not a valid {kind.name}.", param, ctx)


class JsonOption(click.Option):
    """The option ``--json``, with the types of the documents that its command prints."""

    named: tuple[type | str, ...] = ()

    @property
    def documents(self) -> tuple[type, ...]:
        """Types of the documents; those given by name are imported now."""
        return tuple(_document(each) if isinstance(each, str) else each for each in self.named)


class CommandGroup(click.Group):
    """A group that lists its commands in the order of work, each with its first sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order in which commands were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list; click's own cuts a sentence at the end of its line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, each.get_short_help_str(_WHOLE))
                    for name, each in commands
                    if each is not None
                ]
            )


def _document(name: str) -> type:
    module, _, attribute = name.partition(":")
    kind: type = getattr(import_module(module), attribute)
    return kind


def prints(*documents: type | str) -> Callable[[_Command], _Command]:
    """Give a command the option ``--json``.

    ``documents`` are the types that the command may pass to `emit`; the reference lists them.
    ``module:Type`` names one whose module would slow down a page of help.
    """

    def decorate(command: _Command) -> _Command:
        kind = type("_JsonOption", (JsonOption,), {"named": documents})
        option = click.option(
            "--json", "as_json", is_flag=True, cls=kind, help="Print one JSON document."
        )
        return option(command)

    return decorate


def run(group: click.Command, arguments: list[str] | None = None) -> NoReturn:
    """Run a command line to its end and leave the process with its exit code."""
    try:
        _run(group, arguments)
    finally:
        repeat_options("", [])


def _run(group: click.Command, arguments: list[str] | None) -> NoReturn:
    argv = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in argv
    try:
        with _printing():  # click prints help and versions itself
            code = group.main(args=argv, standalone_mode=False)
    except click.exceptions.Abort as error:
        # click raises it for a KeyboardInterrupt, whose text has details if a command set one.
        detail = str(error.__cause__) if isinstance(error.__cause__, KeyboardInterrupt) else ""
        _fail(detail or "interrupted", "Interrupted", INTERRUPTED_EXIT_CODE, as_json=as_json)
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption) and error.option_name == "--json":
            error = click.UsageError("put --json after the command", error.ctx)
        error = _with_cure(error)
        if not as_json:
            usage = io.StringIO()
            error.show(file=usage)
            say(usage.getvalue().rstrip("\n"), err=True)
            raise SystemExit(USAGE_EXIT_CODE) from None
        _fail(error.format_message(), "UsageError", USAGE_EXIT_CODE, as_json=True)
    except DppcaError as error:
        _fail(str(error) or error.public, type(error).__name__, error.exit_code, as_json=as_json)
    except KeyboardInterrupt:
        _fail("interrupted", "Interrupted", INTERRUPTED_EXIT_CODE, as_json=as_json)
    except BrokenPipeError:
        # The reader has closed the pipe, as with `| head`.
        sys.stderr.close()
        raise SystemExit(INTERRUPTED_EXIT_CODE) from None
    except UnprintedError as error:
        _fail(str(error), "UnprintedError", UNEXPECTED_EXIT_CODE, as_json=False)
    except Exception as error:  # noqa: BLE001 - any other error is a defect of this software
        if isinstance(error, ModuleNotFoundError) and not (error.name or "dppca").startswith(
            "dppca"
        ):
            missing = (
                f"package {error.name} is not installed here: install the lock of what you run"
            )
            missing += " (docs/how-to/install.md)"
            _fail(missing, "SettingError", SettingError.exit_code, as_json=as_json)
        say(defect_text(error), err=True)
        message = "a defect in this software, please report it with the lines above"
        _fail(message, type(error).__name__, UNEXPECTED_EXIT_CODE, as_json=as_json)
    raise SystemExit(code if isinstance(code, int) else 0)


@contextmanager
def _printing() -> Iterator[None]:
    """Raise `UnprintedError` where printing by click fails, but for a pipe that was closed.

    What could not be written is given up, so that nobody tries it again.
    """
    try:
        yield
    except OSError as error:
        frames = traceback.walk_tb(error.__traceback__)
        printing = any(frame.f_code is click.echo.__code__ for frame, _ in frames)
        if not printing or isinstance(error, BrokenPipeError):
            raise
        sys.stdout = io.StringIO()
        raise UnprintedError(f"the answer could not be printed: {error.strerror}") from error


def _with_cure(error: click.ClickException) -> click.ClickException:
    """Return a message of click with a cure, and without an option that is not like the one given.

    An option that is missing is explained by its help; what is no number is said in plain words.
    """
    if isinstance(error, click.NoSuchOption):
        names = {each.lstrip("-"): each for each in error.possibilities or ()}
        near = nearest_name(error.option_name.lstrip("-"), names)
        return click.NoSuchOption(
            error.option_name, possibilities=[names[near]] if near else None, ctx=error.ctx
        )
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
        return click.MissingParameter(error.param.help, error.ctx, error.param)
    if isinstance(error, click.BadParameter) and (found := _NO_NUMBER.match(error.message)):
        given, kind = found.groups()
        what = "whole number: write digits alone, such as 1000"
        words = what if kind == "integer" else f"number{pointed(given)}"
        return click.BadParameter(f"{given!r} is not a {words}", error.ctx, error.param)
    return error


_NO_NUMBER = re.compile(r"'(.*)' is not a valid (integer|float)(?: range)?\.$", re.DOTALL)


def run_and_end(group: click.Command) -> NoReturn:
    """Run a command line as this process's only work, and end the process with its exit code.

    Once everything is printed, the process ends without unwinding Python. During unwinding, threads
    of gRPC and Arrow still run and cannot be joined: one of them may abort the process, and the
    exit code, which scripts use, would be lost.
    """
    load_little()
    try:
        run(group)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else UNEXPECTED_EXIT_CODE
    run_exit_hooks()
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except BrokenPipeError:
            code = INTERRUPTED_EXIT_CODE
        except OSError as error:
            with suppress(OSError):  # standard error may be what takes no more
                os.write(2, f"error: the answer could not be printed: {error.strerror}\n".encode())
            code = code or UNEXPECTED_EXIT_CODE
    os._exit(code)


def load_little() -> None:
    """Have this process import what commands need, at little cost; before anything is imported."""
    # gRPC's own lines stand beside errors of ours that say the same in words.
    os.environ.setdefault("GRPC_VERBOSITY", "none")
    # Whatever other packages plug into pydantic would see all that is validated; finding them, in
    # every installed package, is a tenth of a short command.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    hide_packages()
    # What is imported is no garbage; looking for some in it is a tenth of a short command.
    gc.set_threshold(_ALLOCATIONS)


def defect_text(error: BaseException) -> str:
    """Return the origin of an error that is a defect, for a report: code places and error kinds.

    The error's message is left out, except the system's text for its own errors: a library may
    quote a row, a query or a password.
    """
    lines = ["Traceback (most recent call last):"]
    handled = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if handled is not None:
        lines = [defect_text(handled), "While that was handled:", *lines]
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    if isinstance(error, OSError) and error.errno is not None:
        kind += f": {os.strerror(error.errno)}"
    return "\n".join(filter(None, [*lines, frames, kind]))


def emit(result: object, text: str, *, as_json: bool) -> None:
    """Print a command's result as JSON or text.

    ``result`` is a `Document`, or a dataclass, to which the command's name is added.
    """
    if as_json:
        document = to_document(result)
        if is_dataclass(result):
            document = {"command": _command_name(), **document}
        text = escaped_json(json.dumps(document, ensure_ascii=False, allow_nan=False))
        with _printing():
            click.echo(text)
    elif text:
        say(text)


def _command_name() -> str:
    """Return the name of the running command, without its program's name."""
    names, context = [], click.get_current_context()
    while context.parent is not None:
        names.append(context.info_name or "")
        context = context.parent
    return " ".join(reversed(names))


def say(text: str, *, err: bool = False) -> None:
    """Print text for people: commands in it can be pasted, invisible characters are escapes.

    Nothing ends because standard error takes no more, as a log on a full disk.
    """
    text = shown(pasted(text))
    if not err:
        with _printing():
            click.echo(text)
        return
    try:
        click.echo(text, err=True)
    except OSError:
        sys.stderr = io.StringIO()  # given up: Python 3.13 would end with 120 for what is left


def steps_lines(steps: Sequence[str]) -> list[str]:
    """Return the lines that say what to do next; several steps have numbers."""
    if len(steps) == 1:
        return [f"next: {steps[0]}"]
    return ["next:", *(f"  {number}. {step}" for number, step in enumerate(steps, start=1))]


def tell(text: str) -> None:
    """Print a text for people to standard error."""
    say(text, err=True)


def terminal_width(*, err: bool = False) -> int | None:
    """Columns of the terminal at standard output or error; None if there is no terminal."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


class Progress:
    """Progress of a piece of work."""

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
        """Count ``amount`` more; the bar appears once the work has taken a second."""
        self._done += amount
        if not self._shown:
            return
        if self._bar is None:
            if time.monotonic() - self._started < _PROGRESS_AFTER_S:
                return
            self._open()
        self._bar.update(self._task, completed=self._done, rate=self._rate())

    def reach(self, total: int) -> None:
        """Count up to ``total``."""
        self.advance(total - self._done)

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
    """Show progress on a terminal while the block runs; ``total`` is None if unknown.

    With a name for the counted things (``unit="rows"``), the rate per second is shown too.
    """
    bar = Progress(description, total, shown=enabled and sys.stderr.isatty(), unit=unit)
    try:
        yield bar
    finally:
        bar.close()


@contextmanager
def telling_failures(said: Callable[[], str]) -> Iterator[None]:
    """Add the text of ``said``, if any, to an error that ends the block."""
    try:
        yield
    except (DppcaError, UnprintedError) as error:
        if more := said():
            public = error.public if isinstance(error, DppcaError) else ""
            error.args = (f"{(str(error) or public).rstrip('.')}. {more}",)
        raise


@contextmanager
def telling_interrupts(said: Callable[[], str]) -> Iterator[None]:
    """Add the text of ``said`` to an interrupt of the block, unless it has a text already."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort) as error:
        if str(error):
            raise
        raise KeyboardInterrupt(said()) from None


@contextmanager
def terminable() -> Iterator[None]:
    """End the block at SIGTERM or a closed terminal as at Ctrl-C, so that it can clean up.

    Outside the main thread, which alone gets signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM]
    # Under nohup a closed terminal must have no effect; Windows has no such signal.
    closed = getattr(signal, "SIGHUP", None)
    if closed is not None and signal.getsignal(closed) is signal.SIG_DFL:
        numbers.append(closed)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fail(message: str, name: str, code: int, *, as_json: bool) -> NoReturn:
    if as_json:
        document: ErrorDocument = {"error": {"class": name, "message": message, "exit_code": code}}
        try:
            with _printing():
                click.echo(escaped_json(json.dumps(document, ensure_ascii=False)))
        except UnprintedError as error:
            say(f"error: {error}", err=True)
    say(f"error: {message}", err=True)
    raise SystemExit(code)


def find_names(sources: Iterable[Callable[[], Iterable[str]]], begun: str) -> list[str]:
    """Return names from all sources that begin with ``begun``, ascending, for Tab in a shell.

    A shell waits for the answer, and shows any output in the middle of the line: so the answer
    comes within a few seconds, and nothing is printed. A source that fails with a `DppcaError` (no
    certificate, no connection) gives no names.
    """
    names = set[str]()
    for source in sources:
        try:
            names.update(source())
        except DppcaError:
            continue
    return sorted(name for name in names if name.startswith(begun))
