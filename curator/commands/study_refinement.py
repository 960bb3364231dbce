"""``dppca-curator study refine``."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from dppca.common.kernel.durable.files import write_new
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import KNOWN_FILE, emit, prints, progress
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.curator.commands.options import Positive

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study


@click.command("refine")
@click.argument("result", type=KNOWN_FILE)
@click.option("--target", required=True, help="Attribute that the trees predict.")
@click.option("--name", required=True, help="Name of the new study.")
@click.option(
    "--epsilon",
    type=Positive(),
    required=True,
    help="What each owner's release may cost a person.",
)
@click.option("--delta", type=Positive(), help="For Gaussian noise: its delta, such as 1e-9.")
@click.option("--trees", type=click.IntRange(1), help="Number of trees; by default by a rule.")
@click.option("--leaves", type=click.IntRange(2), help="Most leaves of each, with --trees.")
@click.option("--deadline", help="When the new study stops waiting, such as 2030-01-31T12:00Z.")
@click.option(
    "--open-by",
    help="With trust: aggregate, needed: when it stops waiting for openers, such as 2030-02-28.",
)
@click.option("--ca", type=KNOWN_FILE, help="PEM of the authority that certified the parties.")
@output_file("--output", required=True, help="The draft.", law=FileLaw())
@prints("dppca.curator.planning.refined_study:RefinedStudyDocument")
def command(
    result: Path,
    target: str,
    name: str,
    epsilon: Decimal,
    delta: Decimal | None,
    trees: int | None,
    leaves: int | None,
    deadline: str | None,
    open_by: str | None,
    ca: Path | None,
    output: Path,
    *,
    as_json: bool,
) -> None:
    """Draft a second study that continues one, by its RESULT (.npz).

    It draws synthetic rows from RESULT, grows trees that predict an attribute on them, and drafts
    a study that counts each owner's rows in their leaves. Synthetic rows of the new study are made
    of both results and keep more of what decides that attribute. The rows are saved beside the
    draft: an owner's `review --grown-on FILE` grows the trees again and compares them. Rows that
    lie there for this study are taken as they are.

    The command reads RESULT alone, so the choice of trees costs nothing. The new study costs
    epsilon (and delta) more: each owner's release is charged by itself. With trust: aggregate the
    owners' keys are new, too: the command prints how they get into the draft.

    \b
    Example:
      dppca-curator study refine nltcs.npz --target outside --name nltcs-2 --epsilon 0.5 \\
          --ca ca.pem --output nltcs-2.yaml
    """
    from dppca.common.analysis.rows.agreement import compare_with_release
    from dppca.common.analysis.rows.refinement import (
        ROWS,
        choose_size,
        draft_text,
        refine,
        require_refinable,
        write_rows,
    )
    from dppca.common.analysis.study_file import study_from_yaml
    from dppca.common.kernel.attestation.parties import KnownParties
    from dppca.common.kernel.attestation.tables import read_rows
    from dppca.common.kernel.attestation.verify import read_authority, verify_result_file
    from dppca.common.kernel.durable.files import SHARED, require_no_file
    from dppca.curator.commands.study_assembly import key_steps
    from dppca.curator.planning.refined_study import RefinedStudyDocument, refined_text
    from dppca.curator.study.assembly import read_draft

    if (trees is None) != (leaves is None):
        raise SettingError("--trees and --leaves belong together")
    given = {"deadline": deadline, "open_by": open_by}
    times = {key: value for key, value in given.items() if value is not None}
    parties = KnownParties(read_authority(ca))
    checked, published, signed = verify_result_file(result, parties)
    first, rows = checked.study, output.with_name(f"{output.stem}-rows.parquet")
    require_refinable(first, target, delta)
    _require_times(first, deadline, open_by)
    require_no_file(output)
    size = choose_size(first, epsilon=epsilon, delta=delta, n_rows=published.header.n_rows)
    with progress("Drawing rows and growing trees", enabled=not as_json):
        write_rows(rows, published, first, sha256=signed.sha256, mode=SHARED)
        missed = compare_with_release(published, first, read_rows(rows, first.table, n_rows=ROWS))
        document = refine(
            first,
            sha256=signed.sha256,
            rows=rows,
            target=target,
            size=(trees or size.trees, leaves or size.leaves),
            epsilon=epsilon,
            delta=delta,
            changes={"name": name, **times},
        )
    text = draft_text(document)
    draft = read_draft(text)
    if draft is None:
        study_from_yaml(text)  # refused here, not later
    write_new(output, text)
    begin = [f"dppca-curator study create {quote(str(output))}"]
    drafted = RefinedStudyDocument(
        study=name,
        continues=first.name,
        path=output,
        rows=rows,
        target=target,
        trees=trees or size.trees,
        leaves=leaves or size.leaves,
        rule=(size.trees, size.leaves),
        rows_per_leaf=size.rows_per_leaf,
        noise=size.noise,
        missed=list(missed),
        hidden=not size.is_clear,
        next=[
            f"dppca-curator study check {quote(str(output))}",
            *(begin if draft is None else key_steps(output, draft)),
            f"dppca-owner review {name} --grown-on {quote(rows.name)}  # every steward, whom you "
            "send that file: are they the same trees?",
        ],
    )
    emit(drafted, refined_text(drafted), as_json=as_json)


def _require_times(first: Study, deadline: str | None, open_by: str | None) -> None:
    """Raise `SettingError` where the new study lacks a time that the first one had."""
    if first.privacy.colluders is not None and open_by is None:
        raise SettingError(
            f"study {first.name} has trust: aggregate, and so will the new one: give --open-by, "
            "when it stops waiting for its openers"
        )
    if first.required_contributions < len(first.owners) and deadline is None:
        raise SettingError(
            f"study {first.name} needs {first.required_contributions} of its {len(first.owners)} "
            "owners, and so will the new one: give --deadline, when it stops waiting for the others"
        )
