"""``dppca-curator study new`` and ``study check``: study files, without a curator."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import click

from dppca.common.analysis.estimates.reasons import RuledOut
from dppca.common.analysis.outlook import Outlook
from dppca.common.kernel.documents.amounts import parse_positive
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.names import one_line, require_party_name
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import write_new
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.schema.units import NeighbourRelation
from dppca.common.shell.console import KNOWN_FILE, Whole, emit, prints, steps_lines, terminal_width
from dppca.common.shell.dictionaries.dictionary import Omission
from dppca.common.shell.outputs import FileLaw, output_file

if TYPE_CHECKING:
    from dppca.common.kernel.schema import Schema
    from dppca.common.kernel.study import Study
    from dppca.curator.planning.proposals import NumbersProposal
    from dppca.curator.planning.study_draft import Choices


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftDocument:
    """Draft of a study file."""

    path: Annotated[Path, "the file that was written"]
    dictionary: Annotated[str, "what kind of dictionary it was drafted from"]
    attributes: Annotated[list[str], "names of the attributes"]
    left_out: Annotated[tuple[Omission, ...], "columns that became no attribute"]
    notes: Annotated[tuple[str, ...], "what it says of cells that a study cannot hold"]
    policy_format: Annotated[
        str, "line for a site's policy that says how the files are written; empty for none"
    ]
    ruled_out: Annotated[
        tuple[RuledOut, ...], "questions that no result of the study can answer, and why"
    ]
    outlooks: Annotated[
        tuple[Outlook, ...],
        "what the noise will leave, for each number of rows of an owner; empty where that is still "
        "to be decided",
    ]
    proposed: Annotated[str, "bins or histograms of numbers, by the noise; empty without --rows"]
    to_decide: Annotated[list[str], "fields that are blank on purpose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStudyDocument:
    """Study file that is valid."""

    study: Annotated[str, "name of the study"]
    stated: Annotated[Stated, "what it is for: stewards see it before they agree"]
    digest: Annotated[DigestText | None, "digest of the study; null before it has all keys"]
    owners: Annotated[tuple[str, ...], "owners of the study"]
    attributes: Annotated[list[str], "names of the attributes"]
    coded_columns: Annotated[int, "columns of a coded row"]
    missing_values: Annotated[
        tuple[str, ...], "codes that count as missing, and of which attributes, in words"
    ]
    wide_bins: Annotated[
        tuple[str, ...],
        "numerics without spikes whose bins hold several whole numbers: a number that many "
        "rows have is spread over its bin",
    ]
    one_number: Annotated[
        dict[str, list[list[str]]],
        "attributes of whose labels several are one number, and these labels: a file of numbers "
        "cannot tell them apart",
    ]
    ruled_out: Annotated[
        tuple[RuledOut, ...], "questions that no result of the study can answer, and why"
    ]
    outlooks: Annotated[
        tuple[Outlook, ...],
        "what the noise will leave, for each number of rows of an owner; empty for a study that "
        "continues another",
    ]
    next: Annotated[list[str], "commands for what to do now, with remarks as a shell has them"]


def _stated_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each text that says what a study is for."""
    for each in reversed(fields(Stated)):
        meaning = each.metadata["meaning"]
        command = click.option(f"--{each.name}", help=f"{meaning[0].upper()}{meaning[1:]}.")(
            command
        )
    return command


@click.command("new")
@click.option(
    "--columns",
    type=KNOWN_FILE,
    required=True,
    help="Public data dictionary: CSV (name, type, lower, upper, labels, unknown, missing_values, "
    "unit, concept, description), REDCap's, a Frictionless table schema, or the two sheets of Opal "
    "or of a DataSchema (.xlsx).",
)
@click.option(
    "--missing-values",
    default="",
    metavar="CODES",
    help="Codes that mean missing in all columns, such as '-99, refused | 98'; REDCap keeps them "
    "among the project's settings.",
)
@output_file("--output", required=True, help="The new file.", law=FileLaw())
@click.option("--name", help="Name of the study.")
@_stated_options
@click.option("--owner", "owners", multiple=True, help="Name of an owner; once for each.")
@click.option("--epsilon", help="What each owner's release may cost a person, such as 1.0.")
@click.option("--delta", help="Makes the noise Gaussian; such as 1e-9.")
@click.option("--mechanism", help="Name of the noise; by default the usual one for the delta.")
@click.option(
    "--rows-per-person",
    type=Whole(min=1),
    help="The most rows that one person may have at one owner.",
)
@click.option(
    "--rows-counted",
    type=Whole(min=1),
    help="Protect people with any number of rows, who weigh as so many rows at most.",
)
@click.option(
    "--neighbours",
    type=click.Choice([each.value for each in NeighbourRelation]),
    help="Added: the number of rows is secret, and leaves with noise.",
)
@click.option("--target", help="Column to predict: half the noise on it.")
@click.option("--histograms", is_flag=True, help="Release histograms of numbers and dates, too.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    help="Expected rows of every owner: bins or histograms of numbers are proposed by the noise.",
)
@prints(DraftDocument)
def new(
    columns: Path,
    output: Path,
    missing_values: str,
    rows: int | None,
    neighbours: str | None,
    *,
    as_json: bool,
    **given: Any,
) -> None:
    """Draft a study file from a public data dictionary.

    Needs no curator and no certificate.

    Names, types, labels and bounds come from the dictionary. What neither it nor an option says is
    left blank on purpose, with a comment. A file that holds rows is refused: bounds and labels that
    come from rows are outside the privacy guarantee.

    \b
    Example:
      dppca-curator study new --columns dictionary.csv --output study.yaml
      dppca-curator study new --columns dictionary.csv --output study.yaml --name heart \\
          --owner hospital --owner clinic --epsilon 1.0 --rows-per-person 1 --rows 7000
    """
    from dppca.common.analysis.estimates.reasons import describe_ruled_out, ruled_out
    from dppca.common.analysis.outlook import look_at_sizes, outlook_lines
    from dppca.common.kernel.privacy.release import calibrate
    from dppca.common.shell.dictionaries.dictionary import read_codes
    from dppca.common.shell.dictionaries.recognition import read_dictionary
    from dppca.curator.planning.study_draft import (
        Choices,
        choose_deadline,
        draft_study,
        open_places,
        policy_format,
    )

    width = terminal_width()
    stated = Stated(**{each.name: given.pop(each.name) for each in fields(Stated)})
    relation = None if neighbours is None else NeighbourRelation(neighbours)
    choices = Choices(
        stated=stated, deadline=choose_deadline(utc_now()), neighbours=relation, **given
    )
    for option, value in (
        *(("owner", each) for each in choices.owners),
        *((each, getattr(choices, each)) for each in ("name", "epsilon", "delta")),
    ):
        if value is not None:
            try:
                (require_party_name if option in ("owner", "name") else parse_positive)(value)
            except ValueError as error:
                raise SettingError(f"--{option} {value}: {error}") from error
    if choices.rows_counted is not None and choices.rows_per_person is not None:
        raise SettingError(
            "--rows-counted is for people with any number of rows: leave --rows-per-person out"
        )
    dictionary = read_dictionary(columns, missing=read_codes(missing_values))
    names = [entry.name for entry in dictionary.entries]
    target = choices.target
    if target is not None and target not in names:
        left_out = [f" ({each.reason})" for each in dictionary.omitted if each.name == target]
        raise SettingError(
            f"--target {target} is not a column of the dictionary that a study can use"
            f"{''.join(left_out)}: {', '.join(names)}"
        )
    text = draft_study(dictionary, choices, source=columns.name)
    found = None if rows is None else _propose(text, choices, rows)
    if found is not None:
        choices = replace(choices, bins=found.bins)
        text = draft_study(dictionary, choices, source=columns.name)
    if (weight := _weigh_squares(text, choices)) > 1:
        choices = replace(choices, square_weight=weight)
        text = draft_study(dictionary, choices, source=columns.name)
    if choices.has_count and (count := _weigh_count(text, choices, rows)) != 1:
        choices = replace(choices, count_weight=count)
        text = draft_study(dictionary, choices, source=columns.name)
    if (joint := _joint_share(text, choices)) is not None:
        choices = replace(choices, joint=joint)
        text = draft_study(dictionary, choices, source=columns.name)
    write_new(output, text)
    blank, table, study = open_places(text), *_read_draft(text)
    outlooks = () if study is None else look_at_sizes(study, calibrate(study), rows)
    drafted = DraftDocument(
        path=output,
        dictionary=dictionary.form,
        attributes=names,
        left_out=dictionary.omitted,
        notes=dictionary.notes,
        policy_format=policy_format(dictionary),
        ruled_out=() if table is None else ruled_out(table),
        outlooks=outlooks,
        proposed="" if found is None else found.words,
        to_decide=blank,
    )
    lines = [
        f"{output}: from a {dictionary.form}, attributes: {len(names)}.",
        *(f"  left out: {each.name}, {each.reason}" for each in dictionary.omitted),
        *(f"  not carried over: {one_line(each)}" for each in dictionary.notes),
        *([f"  proposed by the noise: {drafted.proposed}"] if drafted.proposed else []),
        *(f"  decide: {place}" for place in blank),
        *(["Fill these in."] if blank else []),
        *map(describe_ruled_out, drafted.ruled_out),
        *([] if study is None else outlook_lines(outlooks, study.unit.counts, width=width)),
        *(
            [f"for the stewards, in policy.yaml beside path: {drafted.policy_format}"]
            if drafted.policy_format
            else []
        ),
        f"next: dppca-curator study check {quote(str(output))}",
    ]
    emit(drafted, "\n".join(lines), as_json=as_json)


def _propose(text: str, choices: Choices, rows: int) -> NumbersProposal | None:
    """Return what the noise of a draft allows for its numbers; None without any."""
    import yaml

    from dppca.curator.planning.proposals import propose_for_draft

    unit = choices.rows_per_person or choices.rows_counted
    if choices.epsilon is None or not choices.owners or unit is None:
        raise SettingError(
            "--rows proposes by the noise: give --epsilon, --owner and --rows-per-person too, or "
            "--rows-counted for people with any number of rows"
        )
    return propose_for_draft(
        yaml.safe_load(text)["schema"],
        epsilon=parse_positive(choices.epsilon),
        delta=None if choices.delta is None else parse_positive(choices.delta),
        owner_rows=[rows] * len(choices.owners),
        mechanism=choices.mechanism,
    )


def _read_draft(text: str) -> tuple[Schema | None, Study | None]:
    """Return the schema and the study of a draft; each is None where too much is left to decide."""
    from dppca.common.analysis.study_file import study_from_yaml
    from dppca.common.kernel.documents.yaml_text import load_yaml
    from dppca.curator.planning.proposals import table_of_draft

    document: Any = load_yaml(text)
    table, study = table_of_draft(document["schema"]), None
    with suppress(StudyError, SettingError):
        study = study_from_yaml(text)
    return table, study


def _joint_share(text: str, choices: Choices) -> tuple[str, float] | None:
    from dppca.common.kernel.documents.yaml_text import load_yaml
    from dppca.curator.planning.proposals import propose_joint

    if (choices.mechanism, choices.delta, choices.target) != (None, None, None):
        return None
    document: Any = load_yaml(text)
    return propose_joint(document["schema"])


def _weigh_squares(text: str, choices: Choices) -> int:
    from dppca.common.kernel.documents.yaml_text import load_yaml
    from dppca.curator.planning.proposals import weigh_squares

    document: Any = load_yaml(text)
    delta = None if choices.delta is None else parse_positive(choices.delta)
    return weigh_squares(document["schema"], delta=delta, mechanism=choices.mechanism)


def _weigh_count(text: str, choices: Choices, rows: int | None) -> float:
    from dppca.common.kernel.documents.yaml_text import load_yaml
    from dppca.curator.planning.proposals import weigh_count

    document: Any = load_yaml(text)
    return weigh_count(
        document["schema"],
        delta=None if choices.delta is None else parse_positive(choices.delta),
        mechanism=choices.mechanism,
        epsilon=None if choices.epsilon is None else parse_positive(choices.epsilon),
        owner_rows=None if rows is None else [rows] * len(choices.owners),
    )


@click.command("check")
@click.argument("file", type=KNOWN_FILE)
@output_file(
    "--export",
    help="Also write its attributes as the two sheets of Opal and of a DataSchema (.xlsx).",
    law=FileLaw(),
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    help="Expected rows of every owner; by default the forecast is for several numbers.",
)
@prints(CheckedStudyDocument)
def check(file: Path, export: Path | None, rows: int | None, *, as_json: bool) -> None:
    """Say whether the study FILE is valid, and what is wrong.

    Needs no curator, reads no rows. It also names the questions that a choice rules out, and says
    how wide intervals will be.

    With trust: aggregate FILE may lack the owners' keys: then it says how they get into it. It also
    warns where title, purpose, contact, approval or deadline is missing, where bins of whole
    numbers would lose heaps, such as 40 hours (see spikes), and where labels such as 1.1 and 1.10
    are one number.

    \b
    Example:
      dppca-curator study check study.yaml
    """
    from dppca.common.analysis.estimates.forecast import require_answerable
    from dppca.common.analysis.estimates.reasons import ruled_out, ruled_out_lines
    from dppca.common.analysis.field.heaps import find_wide_bins, wide_bins_lines
    from dppca.common.analysis.outlook import look_at_sizes, outlook_lines
    from dppca.common.kernel.privacy.release import calibrate
    from dppca.common.kernel.schema.attributes import list_labels
    from dppca.common.kernel.schema.texts import labels_of_one_number
    from dppca.common.shell.dictionaries.data_schemas import write_workbook
    from dppca.common.shell.missing_values import describe_missing
    from dppca.common.shell.study_header import StudyHeader
    from dppca.common.shell.study_words import waits_for_ever
    from dppca.curator.commands.study_assembly import key_steps, read_draft_or_study
    from dppca.curator.study.codable import require_codable

    study, lacks_keys = read_draft_or_study(file)
    require_codable(study.table)
    require_answerable(study)
    if export is not None:
        write_new(export, write_workbook(study.table))
    place = quote(str(file))
    if lacks_keys:
        steps = key_steps(file, study)
    elif study.continues is not None:
        steps = [f"dppca-curator study create {place}"]
    else:
        steps = [f"dppca-curator plan {place} --rows 1000  # or as many as an owner has"]
    checked = CheckedStudyDocument(
        study=study.name,
        stated=study.stated,
        digest=None if lacks_keys else study.digest,
        owners=study.owners,
        attributes=[attribute.name for attribute in study.table.attributes],
        coded_columns=study.table.layout.n_columns,
        missing_values=describe_missing(study.table.attributes),
        wide_bins=find_wide_bins(study.table),
        ruled_out=ruled_out(study.table),
        outlooks=look_at_sizes(study, calibrate(study), rows),
        one_number={
            attribute.name: groups
            for attribute in study.table.attributes
            if (groups := labels_of_one_number(list_labels(attribute) or ()))
        },
        next=steps,
    )
    unsaid = ", ".join(study.stated.lacking)
    n_owners = len(study.owners)
    counted = f"{n_owners} owner{'' if n_owners == 1 else 's'}"
    lines = [
        *StudyHeader(study).lines(),
        f"{file} is a valid study: {study.name}, {counted}, "
        f"{many(len(checked.attributes), 'attributes')}, "
        f"{many(checked.coded_columns, 'coded columns')}.",
        *([f"NOT SAID: {unsaid}. Stewards decide by what a study is for: say it"] * bool(unsaid)),
        *(
            ["ONE OWNER: nothing is joint, what it releases is its own: name the others"]
            * (n_owners == 1)
        ),
        *([f"NO DEADLINE: {waits_for_ever(study.name)}"] if study.deadline is None else []),
        "The owners' keys are still missing." if lacks_keys else f"Digest: {study.digest}",
        *(f"Counted as missing: {each}." for each in checked.missing_values),
        *wide_bins_lines(study.table, checked.wide_bins),
        *ruled_out_lines(study.table),
        *outlook_lines(checked.outlooks, study.unit.counts, width=terminal_width()),
        *(
            f"ONE NUMBER: the labels {' and '.join(group)} of {name} are one number, so a program "
            "that takes them for numbers writes them alike: the column must be text in every file"
            for name, groups in checked.one_number.items()
            for group in groups
        ),
        *steps_lines(steps),
    ]
    emit(checked, "\n".join(lines), as_json=as_json)
