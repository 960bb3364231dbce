"""What `map` shows: a proposal of how columns become attributes. Site-only."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.tables import text_table
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.schema import Schema
from dppca.common.shell.console import terminal_width
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.mapping_drafts import Columns, Draft, DraftLine
from dppca.owner.records.mapping_proposals import Sureness
from dppca.owner.records.text_format import USUAL, TextFormat
from dppca.owner.render.asked import describe_attributes


@dataclass(frozen=True, slots=True)
class MapLine:
    """One attribute of the proposal."""

    attribute: Annotated[str, "attribute of the study"]
    sureness: Annotated[Sureness, "how sure its column is"]
    why: Annotated[str, "why it is proposed"]
    decided: Annotated[bool, "whether nothing of it is left to decide"]
    column: Annotated[str, "its column; empty if none is decided, or a rule has several"]
    labels: Annotated[Mapping[str, str], "labels by cell, as decided"]
    open_labels: Annotated[Mapping[str, str], "cells that wait, and what is proposed"]
    asked: Annotated[str, "what the study says that it is; empty if nothing"]
    held: Annotated[str, "what the site's dictionary says of its column; empty if nothing"]


@dataclass(frozen=True, slots=True)
class MapDocument:
    """A proposed mapping, and what it reads."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    mapping: Annotated[Path, "the file that was written, relative to the site's folder"]
    lines: Annotated[tuple[MapLine, ...], "attributes in the study's order"]
    undecided: Annotated[tuple[str, ...], "attributes that wait for a decision"]
    unused: Annotated[tuple[str, ...], "columns that nobody asks for"]
    gone: Annotated[tuple[str, ...], "lines of the earlier file that no longer fit"]
    format: Annotated[str, "`format` for policy.yaml; empty if the file is written as usual"]
    coded_by_rule: Annotated[
        CheckReport | None, "values that coding replaces; null while something is undecided"
    ]


def map_lines(draft: Draft, columns: Columns, schema: Schema) -> tuple[MapLine, ...]:
    """Return the lines of a document."""
    words = {each.name: each.words for each in describe_attributes(schema)}
    return tuple(
        MapLine(
            each.attribute,
            each.sureness,
            each.why,
            each.is_decided,
            _column(each),
            _table(each),
            each.open_cells,
            words[each.attribute],
            _held(each, columns),
        )
        for each in draft.lines
    )


def draft_text(draft: Draft, columns: Columns, form: TextFormat, schema: Schema) -> str:
    """Return the proposal for a person: how it is written, columns, labels."""
    lines = ["How it is written:", f"  {form.to_yaml() if form != USUAL else 'as usual'}", ""]
    rows = [[one_line(cell) for cell in _row(each)] for each in draft.lines]
    lines += text_table(("attribute", "column", "is", "why"), rows, width=terminal_width())
    said = [line for each in map_lines(draft, columns, schema) for line in _said_lines(each)]
    if said:
        lines += ["", "What they say (the study of its attribute, your dictionary of its column):"]
        lines += [f"  {one_line(line)}" for line in said]
    unused = unused_columns(draft, columns)
    if unused:
        lines += ["", f"Columns that nobody asks for: {', '.join(map(one_line, unused))}"]
    tables = [line for each in draft.lines for line in _label_lines(each)]
    if tables:
        lines += [
            "",
            "Labels (decide by what a word means, from the codebook; do not count first):",
        ]
        lines += [f"  {one_line(line)}" for line in tables]
    lines += [f"GONE: {each}" for each in draft.gone]
    return "\n".join(lines)


def unused_columns(draft: Draft, columns: Columns) -> tuple[str, ...]:
    """Return columns that no line of a draft reads by its name."""
    used = {_column(each) for each in draft.lines}
    return tuple(name for name in columns if name not in used)


def _row(line: DraftLine) -> Sequence[str]:
    if line.kept:
        return (line.attribute, _column(line) or "a rule", "kept", line.why)
    said = line.why if line.rule is not None or not line.comment else line.comment
    return (line.attribute, _column(line) or "?", line.sureness.value, said)


def _column(line: DraftLine) -> str:
    rule = line.rule
    column = rule.get("column", "") if isinstance(rule, Mapping) else rule
    return column or ""


def _table(line: DraftLine) -> Mapping[str, str]:
    table = line.rule.get("recode", {}) if isinstance(line.rule, Mapping) else {}
    return {str(cell): str(label) for cell, label in table.items()}


def _held(line: DraftLine, columns: Columns) -> str:
    """Return what the site's dictionary says of the column that a line reads, or may read."""
    column = columns.get(_column(line) or line.proposed)
    return "" if column is None else ", ".join(filter(None, (column.note, column.concept)))


def _said_lines(line: MapLine) -> Iterator[str]:
    for who, words in ((line.attribute, line.asked), (line.column or "its column", line.held)):
        if words:
            yield f"{who}: “{words}”"


def _label_lines(line: DraftLine) -> Iterator[str]:
    pairs = [f"{cell} is {label}" for cell, label in _table(line).items()]
    if pairs:
        yield f"{line.attribute}: {', '.join(pairs)}"
    for cell, said in line.open_cells.items():
        yield f"{line.attribute}: {cell} is DECIDE ({said})"


def policy_lines(path: Path, form: TextFormat, key: str) -> list[str]:
    """Return the lines for a data set of ``policy.yaml``; ``key`` is empty without one."""
    lines = ["Lines for the data set in policy.yaml:"]
    lines += [f"      format: {form.to_yaml()}"] if form != USUAL else []
    lines += [f"      key: {json.dumps(key, ensure_ascii=False)}"] if key else []
    return [*lines, f"      mapping: {path.as_posix()}"]
