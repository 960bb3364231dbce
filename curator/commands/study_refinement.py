"""``dppca-curator study refine``."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import click

from dppca.common.errors import SettingError
from dppca.common.shell.console import FILE, KNOWN_FILE, emit, prints, progress
from dppca.common.shell.files import write_new
from dppca.curator.commands.options import Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedStudyDocument:
    """Draft of a study that continues another."""

    study: Annotated[str, "name of the new study"]
    continues: Annotated[str, "name of the study that it continues"]
    path: Annotated[Path, "the draft"]
    rows: Annotated[Path, "file of the synthetic rows that the trees were grown on"]
    target: Annotated[str, "attribute that the trees predict"]
    trees: Annotated[int, "number of trees"]
    leaves: Annotated[int, "most leaves of each"]
    rule: Annotated[tuple[int, int], "trees and leaves by the rule"]
    rows_per_leaf: Annotated[float, "rows of all owners in a leaf, by the rule, on average"]
    noise: Annotated[float, "standard deviation of the noise of a count, in rows, by the rule"]
    hidden: Annotated[bool, "whether the noise hides the counts: the budget is too small"]


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
@click.option("--open-by", help="With trust: aggregate: when it stops waiting for openers.")
@click.option("--ca", type=KNOWN_FILE, help="PEM of the authority that certified the parties.")
@click.option("--output", type=FILE, required=True, help="The draft.")
@prints(RefinedStudyDocument)
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
    """Draft a second study that continues the one whose RESULT (.npz) was published.

    It draws synthetic rows from RESULT, grows trees that predict an attribute on them, and drafts
    a study that counts each owner's rows in their leaves. Synthetic rows of the new study are made
    of both results and keep more of what decides that attribute. The rows are saved beside the
    draft: an owner's `review --grown-on FILE` grows the trees again and compares them. Rows that
    lie there for this study are taken as they are.

    The command reads RESULT alone, so the choice of trees costs nothing. The new study costs
    epsilon (and delta) more: each owner's release is charged by itself.

    \b
    Example:
      dppca-curator study refine nltcs.npz --target outside --name nltcs-2 --epsilon 0.5 \\
          --ca ca.pem --output nltcs-2.yaml
    """
    from dppca.common.attestation.envelopes import read_signed
    from dppca.common.attestation.parties import KnownParties
    from dppca.common.attestation.verify import read_authority, verify_result
    from dppca.common.shell.files import SHARED
    from dppca.common.synthesis.refinement import (
        choose_size,
        draft_text,
        refine,
        require_refinable,
        write_rows,
    )

    if (trees is None) != (leaves is None):
        raise SettingError("--trees and --leaves belong together")
    given = {"deadline": deadline, "open_by": open_by}
    times = {key: value for key, value in given.items() if value is not None}
    signed = read_signed(result)
    checked, published = verify_result(signed, KnownParties(read_authority(ca)))
    first, rows = checked.study, output.with_name(f"{output.stem}-rows.parquet")
    require_refinable(first, target, delta)
    if output.exists():
        raise SettingError(f"cannot write the new file {output}: it exists already")
    size = choose_size(first, epsilon=epsilon, delta=delta, n_rows=published.header.n_rows)
    with progress("Drawing rows and growing trees", enabled=not as_json):
        write_rows(rows, published, first, sha256=signed.sha256, mode=SHARED)
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
    write_new(output, draft_text(document))
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
        hidden=not size.is_clear,
    )
    emit(drafted, _text(drafted), as_json=as_json)


def _text(drafted: RefinedStudyDocument) -> str:
    lines = [
        f"{drafted.path}: continues study {drafted.continues}; {drafted.trees} trees of at most "
        f"{drafted.leaves} leaves, by {drafted.target}.",
        f"  the rule for this budget: {drafted.rule[0]} trees of {drafted.rule[1]} leaves. A leaf "
        f"has {drafted.rows_per_leaf:.0f} rows on average, a count noise of {drafted.noise:.0f}",
        f"  the rows that the trees were grown on: {drafted.rows}. Send it to the owners with the "
        "draft: `dppca-owner review --grown-on` compares",
        f"next: dppca-curator study check {drafted.path}",
    ]
    if drafted.hidden:
        lines.insert(2, "  THE NOISE HIDES THE COUNTS: this budget is too small for a second study")
    return "\n".join(lines)
