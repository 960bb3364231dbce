"""Drafts of a mapping file: decided lines, and lines that say DECIDE until a person decides.

What was decided stays when columns or words have changed: a draft for a file that is there keeps
its rules and adds lines for new attributes and new words.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Attribute, Schema
from dppca.common.kernel.schema.attributes import MAX_LABEL_LENGTH, label_text, list_labels
from dppca.common.kernel.schema.columns import cell_texts
from dppca.common.kernel.schema.texts import label_finder
from dppca.common.shell.dictionaries.dictionary import Dictionary
from dppca.owner.records.mapping_proposals import (
    DOUBTFUL_FROM,
    ColumnProposal,
    SiteColumn,
    Sureness,
    base_score,
    propose_columns,
    propose_labels,
)
from dppca.owner.records.sources import Source, Wanted

MOST_WORDS: Final = 100
"""Words of a column that are compared with labels; a column with more is none of labels."""
_BATCH_ROWS: Final = 1 << 16  # read at once
_PLAIN: Final = re.compile(r"[^\W\d_][\w .-]*[\w]|[^\W\d_]|0|-?[1-9][0-9]{0,14}")
_SPOKEN_FOR: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "nan", "inf"})
_SHORT: Final = 4  # words of a table that is written on one line
Columns = Mapping[str, SiteColumn]


@dataclass(frozen=True, slots=True)
class DraftLine:
    """One attribute of a draft.

    Attributes
    ----------
    attribute
        Its name.
    rule
        Its rule as a document; None if a person has to write it, the column's name alone if its
        cells are read as they are.
    open_cells
        Cells of ``recode`` that a person has to decide, each with a comment.
    sureness, why
        How sure the column is, and why it is proposed.
    comment
        What a person may write, if the rule is not decided.
    proposed
        The column that is proposed, if the rule is not decided.
    kept
        True if the rule is that of a file that was there.
    """

    attribute: str
    rule: str | Mapping[str, Any] | None
    sureness: Sureness
    why: str
    comment: str = ""
    open_cells: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    proposed: str = ""
    kept: bool = False

    @property
    def is_own(self) -> bool:
        """True for the column of the attribute's own name, as it is."""
        return self.rule == self.attribute.strip()

    @property
    def is_decided(self) -> bool:
        """True if nothing of it is left to a person."""
        return self.rule is not None and not self.open_cells


@dataclass(frozen=True, slots=True)
class Draft:
    """Lines of a mapping file in the study's order; ``gone`` are lines that no longer fit."""

    lines: tuple[DraftLine, ...]
    missing: tuple[str, ...]
    gone: tuple[str, ...] = ()

    @property
    def undecided(self) -> tuple[str, ...]:
        """Attributes that a person has to decide."""
        return tuple(line.attribute for line in self.lines if not line.is_decided)

    def text(self, title: str) -> str:
        """Return the file; attributes that are columns of their own names are a comment."""
        own = [one_line(line.attribute) for line in self.lines if line.is_own]
        parts = [f"# {one_line(title)}; site-only: it may hold words of rows", "version: 1"]
        if self.missing:
            parts.append(f"missing: [{', '.join(map(_scalar, self.missing))}]")
        if own:
            parts.append(f"# by their own names: {', '.join(own)}")
        lines = [each for line in self.lines if not line.is_own for each in _lines(line)]
        parts += ["attributes:", *lines] if lines else ["attributes: {}"]
        return "\n".join(parts) + "\n"


def site_columns(
    source: Source,
    attributes: Sequence[Attribute],
    key: str,
    dictionary: Dictionary | None = None,
    *,
    also: Collection[str] = (),
) -> Columns:
    """Return the columns of a source, with words of those that may be an attribute with labels.

    ``key`` is left out: no cell of it is read. A column with more than `MOST_WORDS` distinct cells
    has no words, unless the file itself, or else the site's ``dictionary``, says what its codes
    mean. ``also`` are columns that are read for their words whatever their names are like.
    """
    names = [name for name in dict.fromkeys(source.names) if name and name != key]
    names = [name for name in names if name not in source.facts.unknown]
    labelled = [each for each in attributes if list_labels(each) is not None]
    said = {name: said_of(name, dictionary) for name in names}
    read = [
        name
        for name in names
        if name in also or any(base_score(each, said[name]) >= DOUBTFUL_FROM for each in labelled)
    ]
    cells = _distinct(source, read)
    codes = source.facts.value_labels
    return {name: _column(said[name], codes.get(name, {}), cells.get(name)) for name in names}


def make_draft(
    schema: Schema,
    columns: Columns,
    *,
    accepted: Collection[str] = (),
    missing: Sequence[str] = (),
    before: Mapping[str, Any] = MappingProxyType({}),
    decided: Mapping[str, str] = MappingProxyType({}),
    labels: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Draft:
    """Return a draft for the attributes of a study.

    Parameters
    ----------
    accepted
        Attributes whose doubtful column and labels are taken.
    missing
        Codes that the codebook says mean missing. The study's own are added if a rule changes
        cells, since they are not looked for there.
    before
        The document of a file that is there.
    decided
        For attributes that a person decided, the column, or nothing where it is left undecided.
    labels
        For attributes that a person decided, the label of each cell; a cell without one is unknown.

    Raise `SettingError` for an accepted attribute that the study lacks.
    """
    names = [attribute.name for attribute in schema.attributes]
    if strange := [name for name in accepted if name not in names]:
        raise SettingError(f"the study has no attribute {', '.join(map(one_line, strange))}")
    rules = before.get("attributes") or {}
    proposals = propose_columns(schema.attributes, [*columns.values()])
    for name, column in decided.items():
        proposals[name] = ColumnProposal(
            column, Sureness.SURE if column else Sureness.LEFT, "as you decided"
        )
    lines = tuple(
        _kept(attribute, rules[attribute.name], columns, attribute.name in accepted)
        if rules.get(attribute.name) is not None
        else _line(
            attribute,
            proposals[attribute.name],
            columns,
            attribute.name in accepted,
            labels.get(attribute.name),
        )
        for attribute in schema.attributes
    )
    gone = [
        f"{name}: its column {column} is gone"
        for name, rule in rules.items()
        if name in names and (column := _column_of(rule)) and column not in columns
    ]
    gone += [f"{name}: the study has no such attribute" for name in rules if name not in names]
    codes = [*map(label_text, before.get("missing") or ()), *map(label_text, missing)]
    if any(isinstance(line.rule, Mapping) for line in lines):
        codes += [code for code, _ in schema.missing_values]
    lines = tuple(each if each.kept else _with_codes(each, codes) for each in lines)
    return Draft(lines, tuple(dict.fromkeys(codes)), tuple(map(one_line, gone)))


def _with_codes(line: DraftLine, codes: Sequence[str]) -> DraftLine:
    """Return a line whose own codes for missing, if it has any, have those of all columns, too."""
    if not isinstance(line.rule, Mapping) or "missing" not in line.rule:
        return line
    missing = [*dict.fromkeys([*codes, *line.rule["missing"]])]
    return replace(line, rule={**line.rule, "missing": missing})


def _distinct(source: Source, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the distinct cells of columns that have `MOST_WORDS` at most, in any order of rows."""
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    if not names:
        return {}
    for arrays in source.read(Wanted(names, _BATCH_ROWS)):
        for name, cells in zip(names, arrays, strict=True):
            if len(found[name]) > MOST_WORDS:
                continue
            plain = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
            for text in islice(cell_texts(plain.unique()), MOST_WORDS + 1):
                if text.strip():
                    found[name].setdefault(_cell_text(text))
        if all(len(each) > MOST_WORDS for each in found.values()):
            break
    return {name: sorted(each) for name, each in found.items() if len(each) <= MOST_WORDS}


def _cell_text(text: str) -> str:
    """Return a cell as a rule writes it: a whole number of 64 bits has no point."""
    text = text.strip()
    return text.removesuffix(".0") if re.fullmatch(r"-?[0-9]+\.0", text) else text


def said_of(name: str, dictionary: Dictionary | None) -> SiteColumn:
    """Return a column with what a dictionary says of it, and of its codes, alone."""
    entries = () if dictionary is None else dictionary.entries
    entry = next((each for each in entries if each.name.strip() == name.strip()), None)
    if dictionary is None or entry is None:
        return SiteColumn(name)
    codes = dictionary.missing if entry.missing is None else entry.missing
    return SiteColumn(
        name,
        {code: meaning or code for code, meaning in entry.meanings},
        note=entry.note,
        concept=entry.concept,
        missing=tuple(code for code, _ in codes),
    )


def _column(
    said: SiteColumn, value_labels: Mapping[str, str], cells: Sequence[str] | None
) -> SiteColumn:
    """Return a column with what its cells mean: a file's or dictionary's word, or themselves."""
    words = {code: label for label, code in value_labels.items()} or {**said.words}
    codes, places = [*words], [label_finder(tuple(words))(cell) for cell in cells or ()]
    own = {cell: cell for cell, place in zip(cells or (), places, strict=True) if place is None}
    is_missing = label_finder(said.missing)
    found = {cell: word for cell, word in {**words, **own}.items() if is_missing(cell) is None}
    fits = {cell: found[cell] for cell in found if len(cell) <= MAX_LABEL_LENGTH}
    present = {codes[place] for place in places if place is not None}
    absent = {*codes} - present if cells is not None else set[str]()
    return replace(said, words=fits, absent=frozenset(absent))


def _line(
    attribute: Attribute,
    proposal: ColumnProposal,
    columns: Columns,
    accepted: bool,
    labels: Mapping[str, str] | None,
) -> DraftLine:
    name, sureness, why = attribute.name, proposal.sureness, proposal.why
    if sureness is Sureness.LEFT:
        said = "write its column; {absent: true} if this site does not have it"
        return DraftLine(name, None, sureness, why, said)
    if sureness is Sureness.DOUBTFUL and not accepted:
        said, column = f"{proposal.column}? ({why})", proposal.column
        return DraftLine(name, None, sureness, why, said, proposed=column)
    if labels is None:
        table, open_cells = _table(attribute, columns[proposal.column], accepted)
    else:
        table, open_cells = {cell: label for cell, label in labels.items() if label}, {}
    rule: dict[str, Any] = {"column": proposal.column}
    if codes := columns[proposal.column].missing:
        rule["missing"] = [*codes]
    is_own = all(label == cell for cell, label in table.items())
    if open_cells or not is_own or (labels and not all(labels.values())):
        rule["recode"] = table
    whole = rule if len(rule) > 1 else proposal.column
    return DraftLine(name, whole, sureness, why, "", open_cells)


def _table(
    attribute: Attribute, column: SiteColumn, accepted: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the decided lines of a table, and what is proposed for the others.

    A cell that no row has, and whose words are like no label, has no line.
    """
    table, open_cells = dict[str, str](), dict[str, str]()
    if list_labels(attribute) is None:
        return table, open_cells
    for cell, each in propose_labels(attribute, column.words).items():
        if each.sureness is Sureness.LEFT and cell in column.absent:
            continue
        meaning = "" if each.words == cell else f"{each.words}: "
        if each.sureness is Sureness.SURE or (each.sureness is Sureness.DOUBTFUL and accepted):
            table[cell] = each.label
        else:
            guess = f"{each.label}?" if each.label else "a label, or delete the line: unknown"
            open_cells[cell] = f"{meaning}{guess}"
    return table, open_cells


def _kept(attribute: Attribute, rule: Any, columns: Columns, accepted: bool) -> DraftLine:
    """Return a line with the rule of a file that is there, and new words of its column."""
    name, why = attribute.name, "as it was decided"
    column = _column_of(rule)
    is_table = isinstance(rule, Mapping) and isinstance(rule.get("recode"), Mapping)
    if not is_table or column not in columns:
        kept = rule if isinstance(rule, (str, Mapping)) else None
        return DraftLine(name, kept, Sureness.SURE, why, kept=True)
    before = {label_text(cell): label for cell, label in rule["recode"].items()}
    decided = {cell: label for cell, label in before.items() if label is not None}
    find = label_finder(tuple(decided))
    known = columns[column]
    new = {c: w for c, w in known.words.items() if find(c) is None and "otherwise" not in rule}
    table, open_cells = _table(attribute, replace(known, words=new), accepted)
    whole = {**rule, "recode": {**decided, **table}}
    return DraftLine(name, whole, Sureness.SURE, why, "", open_cells, kept=True)


def _column_of(rule: Any) -> str:
    column = rule.get("column", "") if isinstance(rule, Mapping) else rule
    return column if isinstance(column, str) else ""


def _lines(line: DraftLine) -> Iterator[str]:
    name = _scalar(line.attribute)
    if line.rule is None:
        yield f"  {name}:  # DECIDE: {one_line(line.comment)}"
        return
    table = line.rule.get("recode", {}) if isinstance(line.rule, Mapping) else {}
    if not line.open_cells and len(table) <= _SHORT:
        yield f"  {name}: {_flow(line.rule)}"
        return
    assert isinstance(line.rule, Mapping)  # noqa: S101 - only a table has open cells
    yield f"  {name}:"
    for key, value in line.rule.items():
        if key != "recode":
            yield f"    {key}: {_flow(value)}"
    yield "    recode:"
    for cell, label in table.items():
        yield f"      {_scalar(cell)}: {_flow(label)}"
    for cell, said in line.open_cells.items():
        yield f"      {_scalar(cell)}:  # DECIDE: {one_line(said)}"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Return a text, a number or a truth value as YAML reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = label_text(value) if not isinstance(value, str) else value
    if not isinstance(value, str):  # YAML 1.1 takes 1e-05 for a text
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    is_plain = _PLAIN.fullmatch(text) is not None and text.casefold() not in _SPOKEN_FOR
    return text if is_plain else json.dumps(text, ensure_ascii=False)
