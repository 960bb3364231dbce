"""Commands that texts name, as the reader can paste them.

A message names a command as it is given without options, such as ``dppca-owner doctor``; whatever
makes the message does not know how the program was called. So options before the command that was
given now, such as ``--site coast``, are put into such texts where they are shown to people. JSON
documents stay as they are made: a program knows how it calls.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from html import escape


class _Pasting:
    """The rule of this process: commands in a text, and what they are to begin with."""

    named: re.Pattern[str] | None = None
    program = ""


def repeat_options(program: str, options: Sequence[str], *, commands: Iterable[str] = ()) -> None:
    """From now on, give ``options`` to each of a program's ``commands`` that a text names.

    Without options every text stays as it is. It holds until the command ends (`console.run`).
    """
    listed = "|".join(map(re.escape, commands))
    pattern = rf"(?<![\w-]){re.escape(program)}(?= (?:{listed})\b)"
    _Pasting.named = re.compile(pattern) if options else None
    _Pasting.program = shlex.join([program, *options])


def pasted(text: str) -> str:
    """Return a text for a terminal, its commands with the options of `repeat_options`."""
    return _replace(text, str)


def pasted_page(page: str) -> str:
    """Return a page (HTML), its commands with these options."""
    return _replace(page, escape)


def _replace(text: str, form: Callable[[str], str]) -> str:
    if _Pasting.named is None:
        return text
    return _Pasting.named.sub(lambda _: form(_Pasting.program), text)
