"""Writes `docs/reference/cli.md` from the commands, or compares it.

``python -m deploy.reference`` writes, with ``--check`` it compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/cli.md"
_WIDTH = 96
_HEAD = """# Command line reference

Made from the commands themselves by `python -m deploy.reference`; a test compares the two. Exit
codes are on [the page of errors](errors.md). Every command takes `--json` and then prints one JSON
document.
"""


def programs() -> dict[str, click.Group]:
    """The three console scripts."""
    from curator.cli import cli as curator
    from deploy.simulation.cli import cli as simulate
    from owner.cli import cli as owner

    return {"dppca-owner": owner, "dppca-curator": curator, "dppca-simulate": simulate}


def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Every command below one, groups included, with its full name."""
    yield name, command
    if isinstance(command, click.Group):
        for child in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), child)
            if found is not None:
                yield from walk(f"{name} {child}", found)


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for program, group in programs().items():
        for name, command in walk(program, group):
            context = click.Context(command, info_name=name, terminal_width=_WIDTH)
            level = "##" if name == program else "###"
            parts.append(f"{level} {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Entry point."""
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text() == page():
            return 0
        sys.stderr.write("docs/reference/cli.md is out of date: python -m deploy.reference\n")
        return 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
