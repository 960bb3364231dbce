"""Commands of any program, run in this process: the imports are not repeated."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import click
import pytest

from dppca.common.shell.console import run
from tests.support.documents import require_documented


def run_here(cli: click.Command, *arguments: object) -> tuple[int, str, str]:
    """Exit code of a command, its output and its error output."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
        run(cli, [str(each) for each in arguments])
    assert isinstance(left.value.code, int)
    return left.value.code, out.getvalue(), err.getvalue()


def answer_of(program: str, cli: click.Command, *arguments: object) -> tuple[int, Any]:
    """Exit code of a command, and the document that it prints; None without one."""
    code, printed, _ = run_here(cli, *arguments, "--json")
    return code, require_documented(program, json.loads(printed)) if printed else None
