"""``dppca-owner``: what a data steward does at a site.

Only `click` is imported here. A command's module, with all the libraries it needs, is imported
when that command is run or asked for its own help.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from dppca.common.console import run_and_end

COMMANDS = {
    "init": ("setup", "Make a site: a key, a signing request, settings, a policy."),
    "doctor": ("doctor", "Find out what is wrong with a site, and what to do."),
    "renew": ("renew", "Change the site's key for a new one, while the old one works."),
    "check": ("check", "Compare data with a study's schema, fault by fault."),
    "review": ("review", "Show exactly what would leave, and what it would cost."),
    "contribute": ("contribute", "Release noised moments to a study, once."),
    "components": ("components", "Fetch the joint components of a study."),
    "synthesize": ("synthesize", "Draw synthetic rows, and publish them if asked."),
    "train": ("train", "Train a classifier on this site's own rows."),
    "predict": ("predict", "Classify rows with a trained model."),
    "verify": ("verify", "Check offline what a released file claims."),
    "selftest": ("selftest", "Audit this installation by measurements and attacks."),
    "report": ("report", "Compare synthetic rows with this site's own rows."),
    "budget": ("budget", "Show what was spent, and verify the ledger."),
    "ledger": ("ledger", "Settle a ledger that was lost or restored."),
}
"""For each command: the module in `dppca.owner.commands` that holds it, and one line of help."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order in which a steward needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"dppca.owner.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup)
@click.version_option(package_name="dppca")
@click.option(
    "--site",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="DPPCA_SITE",
    default=Path(),
    show_envvar=True,
    help="The site's folder; by default the current folder.",
)
@click.pass_context
def cli(ctx: click.Context, site: Path) -> None:
    """The site's end of federated studies: rows stay here, noised moments leave.

    \b
    Example:
      dppca-owner --site hospital init --name hospital --curator hub.example:7443
      dppca-owner --site hospital doctor
      dppca-owner --site hospital review nltcs
      dppca-owner --site hospital contribute nltcs
    """
    ctx.obj = site


def main() -> NoReturn:
    """Entry point."""
    run_and_end(cli)


if __name__ == "__main__":
    main()
