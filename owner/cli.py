"""``dppca-owner``: what a data steward does at a site.

Only `click` is imported here. A command's module is imported when that command is run or asked for
its own help; it declares the options. The libraries that the work needs are imported when it runs.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import click
from click.core import ParameterSource

from dppca.common.kernel.documents.names import nearest_name
from dppca.common.shell.console import FOLDER, run_and_end, telling_interrupts, terminable
from dppca.common.shell.pasting import repeat_options

COMMANDS = {
    "init": ("setup", "Make a site: a key, a signing request, settings, a policy."),
    "doctor": ("doctor", "Find out what is wrong with a site, and what to do."),
    "renew": ("renew", "Change the site's key for a new one, while the old one works."),
    "identity": ("identity", "Print this site's key for a study file; offer to be an opener."),
    "studies": ("studies_command", "List the studies that name this site, and what to do now."),
    "map": ("map_command", "Propose how a file's columns become a study's attributes."),
    "check": ("check", "Compare data with a study's schema, fault by fault."),
    "review": ("review", "Show exactly what would leave, and what it would cost."),
    "contribute": ("contribute_command", "Release noised moments to a study, once."),
    "open": ("open_command", "Open the sum of a study with trust: aggregate, once."),
    "page": ("page.command", "Show studies and budget in a browser here; ask for consent."),
    "components": ("components_command", "Fetch the joint components of a study."),
    "estimate": ("estimate", "Answer a question from a result, with an honest interval."),
    "synthesize": ("synthesize_command", "Draw synthetic rows, and publish them if asked."),
    "train": ("train", "Train a classifier on this site's own rows."),
    "predict": ("predict", "Classify rows with a trained model."),
    "verify": ("verify", "Check offline what a released file claims."),
    "selftest": ("selftest", "Audit this installation by measurements and attacks."),
    "report": ("report_command", "Compare synthetic rows with this site's own rows."),
    "budget": ("budget", "Show what was spent, and verify the ledger."),
    "ledger": ("ledger", "Settle a ledger that was lost or restored."),
    "audit": ("audit", "Write this site's record for an auditor."),
    "roles": ("approvals:roles", "Say which people sign for this site."),
    "policy": ("approvals:policy", "Put a changed policy before them."),
    "proposals": ("approvals:proposals", "List what waits for people to sign."),
    "approve": ("approvals:approve", "Enter signatures that people have made."),
    "withdraw": ("approvals:withdraw", "Withdraw a statement for ever."),
}
"""For each command: the module in `dppca.owner.commands` that holds it, and one line of help."""
_CHARGE_NOTHING = frozenset(
    {
        "init",
        "doctor",
        "renew",
        "identity",
        "studies",
        "map",
        "check",
        "review",
        "open",
        "components",
        "estimate",
        "synthesize",
        "predict",
        "verify",
        "selftest",
        "budget",
        "audit",
        "roles",
        "policy",
        "proposals",
        "approve",
        "withdraw",
    }
)
"""Commands that make no entry of a charge; the others look into the ledger when interrupted."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed.

    `lazy` has, for each command, the module in `dppca.owner.commands` that holds it and one line of
    help; ``module:name`` where the command is not called ``command`` there.
    """

    lazy: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order in which a steward needs them."""
        return list(self.lazy)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; where there is none, say which one may have been meant."""
        name = args[0]
        if name not in self.lazy and not name.startswith("-"):
            near = nearest_name(name, self.lazy)
            meant = "" if near is None else f" Did you mean {near!r}?"
            raise click.UsageError(f"No such command {name!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in self.lazy:
            return None
        place, _, attribute = self.lazy[cmd_name][0].partition(":")
        module = import_module(f"dppca.owner.commands.{place}")
        command: click.Command = getattr(module, attribute or "command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; one that is ended by a signal says what is known of charges."""
        with terminable(), telling_interrupts(lambda: _interrupted(ctx.invoked_subcommand)):
            return super().invoke(ctx)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.lazy.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dppca")
@click.option(
    "--site",
    type=FOLDER,
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
    given = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    repeat_options("dppca-owner", ["--site", str(site)] if given else [], commands=COMMANDS)


def _interrupted(command: str | None) -> str:
    if command is None or command in _CHARGE_NOTHING:
        return "interrupted: nothing was charged by this command"
    return "interrupted: `dppca-owner budget` shows whether anything was charged"


def main() -> NoReturn:
    """Entry point."""
    run_and_end(cli)


if __name__ == "__main__":
    main()
