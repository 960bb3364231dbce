"""``dppca-curator refusals``: recent refusals of a running curator."""

from pathlib import Path

import click

from dppca.common.kernel.documents.counts import many
from dppca.common.shell.console import emit, prints
from dppca.curator.commands.options import as_operator, complete_study, connection
from dppca.curator.operator.responses import Refusals


@click.command()
@click.option(
    "--study", "name", default="", shell_complete=complete_study, help="Only those of this study."
)
@connection
@prints(Refusals)
def refusals(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Show whom the curator refused lately, and what auditors saw.

    The list of refusals begins when the curator is started, and is bounded. Its log has every
    refusal, with the reason. Looks of auditors are a chain that is kept: note its head, and compare
    it with a later list. Nothing in the lists is text that a caller has chosen.

    \b
    Example:
      dppca-curator refusals
      dppca-curator refusals --study nltcs --json
    """
    with as_operator(curator, credentials) as client:
        refusals = client.refusals(name)
    emit(refusals, _text(refusals), as_json=as_json)


def _text(refused: Refusals) -> str:
    return "\n".join([_refusals_text(refused), *_look_lines(refused)])


def _look_lines(refused: Refusals) -> list[str]:
    if not refused.looks:
        return []
    broken = ""
    if refused.broken_look:
        broken = f". THE CHAIN IS BROKEN at look {refused.broken_look}: the store was changed"
    lines = [f"Auditors looked, newest first (head {refused.looks_head}{broken}):"]
    for each in refused.looks:
        study = "" if each.study is None else f" for study {each.study}"
        lines.append(
            f"{each.number}. {each.time.isoformat()}: {each.auditor}, {each.method}{study}"
        )
    return lines


def _refusals_text(refused: Refusals) -> str:
    since = refused.since.isoformat()
    if not refused.refusals:
        return f"Nothing was refused since {since}."
    lines = [f"Refused since {since}, newest first (the log has the reasons):"]
    for each in refused.refusals:
        party = each.party or "somebody without a good certificate"
        study = "" if each.study is None else f" for study {each.study}"
        times = "" if each.times == 1 else f" ({each.times} times)"
        lines += [
            f"{each.time.isoformat()}: {party}, {each.method}{study}{times}",
            f"  {each.sentence} ({each.error})",
        ]
    if refused.dropped:
        lines.append(f"{many(refused.dropped, 'older entries')} dropped.")
    return "\n".join(lines)
