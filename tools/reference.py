"""The page `reference/cli.md` of the site, made from the commands."""

from collections.abc import Iterator

import click

_WIDTH = 96
_HEAD = """# Command line reference

Made from the commands themselves. Exit codes are on [the page of errors](errors.md). Every command
takes `--json` and then prints one JSON document.
"""


def programs() -> dict[str, click.Group]:
    """Return the four console scripts."""
    from dppca.common.verification.cli import cli as verify
    from dppca.curator.cli import cli as curator
    from dppca.deploy.simulation.cli import cli as simulate
    from dppca.owner.cli import cli as owner

    return {
        "dppca-owner": owner,
        "dppca-curator": curator,
        "dppca-simulate": simulate,
        "dppca-verify": verify,
    }


def walk(
    name: str, command: click.Command, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield a context for a command and all below it; ``command_path`` is the full name.

    A command inherits settings from its group's context, such as the names of the help option.
    """
    settings = {**command.context_settings, "terminal_width": _WIDTH}
    context = click.Context(command, parent, info_name=name, **settings)
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            if subcommand is not None:
                yield from walk(child, subcommand, context)


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for program, group in programs().items():
        for context in walk(program, group):
            name = context.command_path
            level = "##" if name == program else "###"
            text = context.command.get_help(context)
            parts.append(f"{level} {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)
