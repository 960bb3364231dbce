"""The progress bar, and the end of a command's process."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dppca.common.kernel.errors import UnreachableError
from dppca.common.shell import console
from dppca.common.shell.console import Progress, find_names, progress, run, terminable
from tests.support.patience import WAIT_S


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error as a terminal wide enough, where a bar appears at once."""
    monkeypatch.setattr(console, "_PROGRESS_AFTER_S", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("total", "unit", "shown"), [(4000, "rows", ["3000/4000", " rows/s"]), (None, "", [])]
)
def test_a_bar_shows_how_far_and_with_a_unit_how_fast(
    terminal: None,
    capsys: pytest.CaptureFixture[str],
    total: int | None,
    unit: str,
    shown: list[str],
) -> None:
    bar = Progress("Reading", total, shown=True, unit=unit)
    bar.advance(1000)
    bar.advance(2000)
    bar.close()
    drawn = capsys.readouterr()
    assert all(part in drawn.err for part in ("Reading", *shown))
    assert ("/s" in drawn.err) == bool(unit)
    assert drawn.out == ""


def test_nothing_is_drawn_where_there_is_no_terminal(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("Reading rows", 10, unit="rows") as bar:
        bar.advance(10)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_defect_is_told_by_its_places_and_kinds_alone(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines are for a report, and what a library says may quote a row."""
    value = "Smith"

    @click.command()
    @click.option("--json", "_json", is_flag=True)
    def command(_json: bool) -> None:
        try:
            float(value)
        except ValueError:
            raise KeyError(value)  # noqa: B904 - as a defect does it

    with pytest.raises(SystemExit) as ended:
        run(command, options)
    printed = capsys.readouterr()
    assert ended.value.code == 70
    assert value not in printed.out + printed.err
    for told in ("Traceback", __file__, "builtins.ValueError", "builtins.KeyError"):
        assert told in printed.err


# A library that aborts while Python unwinds, as a thread of C++ does that nobody has joined.
_ABORTS_AT_EXIT = "import atexit, os, sys; atexit.register(os.abort); "
_MAIN = "sys.argv = {line!r}; from dppca.{side}.cli import main; main()"


def _end(side: str, *line: str, closed: bool = False) -> subprocess.CompletedProcess[bytes]:
    program = _ABORTS_AT_EXIT + _MAIN.format(line=[f"dppca-{side}", *line], side=side)
    redirect = ["sh", "-c", 'exec "$@" >/dev/full', "sh"] if closed else []
    return subprocess.run(
        [*redirect, sys.executable, "-c", program], capture_output=True, timeout=WAIT_S, check=False
    )


@pytest.mark.parametrize("side", ["owner", "curator"])
def test_what_was_printed_arrives_and_the_exit_code_stays(side: str) -> None:
    done = _end(side, "--version")
    assert (done.returncode, b"version" in done.stdout) == (0, True)


@pytest.mark.parametrize(("asked", "told"), [(None, "none"), ("info", "info")])
@pytest.mark.parametrize("side", ["owner", "curator"])
def test_grpc_says_nothing_under_our_lines_unless_it_is_asked_to(
    side: str, asked: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    if asked is not None:
        monkeypatch.setenv("GRPC_VERBOSITY", asked)
    program = (
        f"import os, sys, dppca.{side}.cli as side\n"
        "assert 'grpc' not in sys.modules, 'too late to be quiet'\n"
        "side.cli.main = lambda **_: print(os.environ['GRPC_VERBOSITY'])\n"
        "side.main()"
    )
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert done.stdout.split() == [told]


_LISTS_PLUGINS = """
import click
from dppca.common.shell.console import run, run_and_end
@click.command()
def command():
    from pydantic.plugin._loader import get_plugins
    print(len(list(get_plugins())))
{end}(command)
"""


@pytest.mark.parametrize(("end", "seen"), [("run", "1"), ("run_and_end", "0")])
def test_no_plugin_of_another_package_sees_what_a_command_validates(
    end: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "spy.py").write_text("plugin = object()\n")
    about = tmp_path / "spy-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: spy\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[pydantic]\nspy = spy:plugin\n")
    line = [sys.executable, "-c", _LISTS_PLUGINS.format(end=end)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert done.stdout.split() == [seen], "a plugin is there, and a command loads none"


def test_an_error_keeps_its_exit_code_and_its_document() -> None:
    done = _end("owner", "--site", "/nowhere", "budget", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["class"]) == (error["exit_code"], "SettingError")
    assert b"error: " in done.stderr


def test_an_answer_that_cannot_be_printed_is_no_success() -> None:
    done = _end("owner", "--version", closed=True)
    assert done.returncode == 70
    assert b"No space left on device" in done.stderr


PROGRAM = """
import click
from dppca.common.shell.console import {call}, run_and_end
@click.command()
def command():
    {call}({arguments})
run_and_end(command)
"""


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("say", "'x' * 100"), ("say", "'x' * 100_000"), ("emit", "{}, '', as_json=True")],
)
def test_a_full_device_is_said_once_and_is_no_traceback(call: str, arguments: str) -> None:
    program = PROGRAM.format(call=call, arguments=arguments)
    line = ["sh", "-c", 'exec "$@" >/dev/full', "sh", sys.executable, "-c", program]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 70
    assert done.stderr == "error: the answer could not be printed: No space left on device\n"


@pytest.mark.parametrize("side", ["owner", "curator", "deploy.simulation"])
def test_an_error_keeps_its_exit_code_where_nothing_can_be_printed(side: str) -> None:
    program = f"import sys; sys.argv = ['x', 'none', '--json']; from dppca.{side}.cli import main"
    for redirect in (">/dev/full", "2>/dev/full", ">/dev/full 2>&1"):
        line = [
            "sh",
            "-c",
            f'exec "$@" {redirect}',
            "sh",
            sys.executable,
            "-c",
            f"{program}; main()",
        ]
        done = subprocess.run(line, capture_output=True, text=True, timeout=WAIT_S, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_a_system_without_hangups_ends_a_block_at_sigterm_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(signal, "SIGHUP")
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), terminable():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def _fail() -> list[str]:
    raise UnreachableError("nobody answers")


def test_names_of_all_sources_are_offered_once_and_a_defect_is_not_hidden() -> None:
    sources = [lambda: ["lungs", "heart"], _fail, lambda: ["heart", "hearing"]]
    assert find_names(sources, "hea") == ["hearing", "heart"]
    assert find_names(sources, "") == ["hearing", "heart", "lungs"]
    with pytest.raises(ZeroDivisionError):
        find_names([lambda: [str(1 // 0)]], "")
