"""``dppca-curator refusals``: what a running curator has refused lately."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import click

from dppca.common.console import emit, prints
from dppca.common.documents import Document, TimeText
from dppca.curator.commands.options import (
    as_operator,
    complete_study,
    connection,
    time_text,
)

if TYPE_CHECKING:
    from dppca.curator.operator.client import RefusalLine


class ListedRefusal(TypedDict):
    """Calls of one party that one rule has refused."""

    time: Annotated[TimeText, "when the last of them was"]
    times: Annotated[int, "how many they were"]
    party: Annotated[
        str | None, "`ROLE:NAME`, such as `owner:hospital`; null without a good certificate"
    ]
    study: Annotated[str | None, "name of the study; null if the call named none"]
    method: Annotated[str, "what was called"]
    error: Annotated[str, "name of the error"]
    sentence: Annotated[str, "what it means"]


class RefusalsDocument(Document):
    """What a curator has refused since it was started."""

    since: Annotated[TimeText, "when it was started"]
    refusals: Annotated[list[ListedRefusal], "newest first"]
    dropped: Annotated[int, "older entries that it had no room for"]


@click.command()
@click.option(
    "--study", "name", default="", shell_complete=complete_study, help="Only those of this study."
)
@connection
@prints(RefusalsDocument)
def refusals(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Show what the curator has refused lately: whom, how often, and by which rule.

    The list begins when the curator is started, and is bounded. Its log has every refusal, with the
    reason. Nothing in the list is text that a caller has chosen.

    \b
    Example:
      dppca-curator refusals
      dppca-curator refusals --study nltcs --json
    """
    with as_operator(curator, credentials) as client:
        refusals = client.refusals(name)
    document: RefusalsDocument = {
        "command": "refusals",
        "since": time_text(refusals.since_s),
        "refusals": [_listed(each) for each in refusals.lines],
        "dropped": refusals.dropped,
    }
    emit(document, _text(document), as_json=as_json)


def _listed(line: RefusalLine) -> ListedRefusal:
    return {
        "time": time_text(line.time_s),
        "times": line.times,
        "party": line.party or None,
        "study": line.study or None,
        "method": line.method,
        "error": line.error,
        "sentence": line.sentence,
    }


def _text(document: RefusalsDocument) -> str:
    since, dropped = document["since"], document["dropped"]
    if not document["refusals"]:
        return f"Nothing was refused since {since}."
    lines = [f"Refused since {since}, newest first (the log has the reasons):"]
    for each in document["refusals"]:
        party = each["party"] or "somebody without a good certificate"
        study = "" if each["study"] is None else f" for study {each['study']}"
        times = "" if each["times"] == 1 else f" ({each['times']} times)"
        lines += [
            f"{each['time']}: {party}, {each['method']}{study}{times}",
            f"  {each['sentence']} ({each['error']})",
        ]
    if dropped:
        lines.append(f"{dropped} older entries were dropped.")
    return "\n".join(lines)
