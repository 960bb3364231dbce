"""Texts on the values that coding had to replace; all of them are site-only."""

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.schema.texts import MISSING_WORDS
from dppca.owner.records.faults import (
    WARNING,
    AttributeReport,
    CheckReport,
    FaultKind,
    TargetReport,
    alike_line,
    describe_coding,
    key_line,
)
from dppca.owner.records.lines import LINE_BYTES
from dppca.owner.records.mapping_words import outcome_lines
from dppca.owner.records.source_facts import FaultCount, LineFault


@dataclass(frozen=True, slots=True)
class CheckDocument:
    """Faults of a table, by attribute and row."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    keys: Annotated[Path | None, "the file that keys of rows at fault were written to"]
    coded_by_rule: Annotated[CheckReport, "values that coding replaces, with numbers of rows"]
    wide_bins: Annotated[
        tuple[str, ...],
        "numerics without spikes whose bins hold several whole numbers: a number that many "
        "rows have is spread over its bin",
    ]
    formats: Annotated[
        tuple[str, ...],
        "forms of `format` in policy.yaml by which more cells of text files are read; with "
        "several, cells have other values in each",
    ] = ()


_DECISION = (
    "A decision to release or not because of these counts is a choice made from data, too: the "
    "guarantee does not cover what others may learn from it."
)

_LINE_FAULTS = {
    LineFault.FIELDS: "have a wrong number of fields",
    LineFault.OPEN_QUOTE: "leave a quote open (each line is a row, even inside quotes: remove line "
    "breaks from cells, or export Parquet)",
    LineFault.TOO_LONG: f"are longer than {LINE_BYTES >> 20} MiB; the rest of the line is not read",
    LineFault.ENCODING: "hold bytes that are not of the stated encoding",
}
_MANY = 0.1
"""Share of rows from which an unreadable column is reported before everything else."""


def alarm_lines(report: CheckReport) -> list[str]:
    """Return faults that make a whole column or file unreadable; they stand above all else."""
    encoding = report.malformed_rows.get(LineFault.ENCODING)
    lines = []
    if encoding is not None:
        lines.append(
            f"NOT UTF-8: {_share(encoding.count, report.rows)} rows hold bytes that are not UTF-8, "
            "and labels with such letters are not known: save the data as CSV in UTF-8, or say "
            "its encoding in `format` (Excel in Western Europe: `encoding: windows-1252`)"
        )
    for name, attribute in report.attributes.items():
        n_wrong = attribute.count(FaultKind.TEXT)
        n_present = report.rows - attribute.count(FaultKind.MISSING)
        if n_wrong and (n_wrong == n_present or n_wrong >= _MANY * report.rows):
            what = (
                f"no value of {name} is {attribute.form}"
                if n_wrong == n_present
                else f"{_share(n_wrong, report.rows)} values of {name} are not {attribute.form}"
            )
            lines.append(f"NOT READ: {what}; each is {describe_coding(attribute, FaultKind.TEXT)}")
        if n_present and attribute.count(FaultKind.UNKNOWN) == n_present:
            lines.append(
                f"NOT READ: no value of {name} is one of its labels; each is "
                f"{describe_coding(attribute, FaultKind.UNKNOWN)}. Has the file codes where the "
                "study lists their meanings, or the other way round?"
            )
        if attribute.commonest_out:
            out = attribute.count(FaultKind.OUT_OF_BOUNDS)
            lines.append(
                f"A CODE FOR MISSING? {_share(out, report.rows)} values of {name} are out of "
                f"bounds, and most of these are {attribute.commonest_out}, which counts as the "
                "nearest bound. Is it a code for a missing value? Then export these as empty "
                "cells, or ask the operator for a study that names it in missing_values: by what "
                "the codebook says, not that it occurs here"
            )
        if attribute.midnights:
            lines.append(
                f"A DAY EARLY? Every time of {name} is {' or '.join(attribute.midnights)}, as "
                "midnights of another time zone are. If they are, each counts as the day before: "
                "export dates without a time"
            )
    return [*map(one_line, lines)]


def _remark_lines(name: str, attribute: AttributeReport) -> list[str]:
    """Return what is known of how a column was written."""
    lines = [
        f"{name}: {each.count} of the missing are {code}{f' ({each.words})' if each.words else ''}"
        for code, each in attribute.missing_values.items()
        if each.count
    ]
    for word, count in attribute.missing_words.items():
        writer = MISSING_WORDS[word]
        lines.append(f"{name}: {count} of the missing are {word}, the missing value of {writer}")
    for word, count in attribute.listed_words.items():
        lines.append(
            f"{name}: {count} have its label {word}, which is also the missing value of "
            f"{MISSING_WORDS[word]}: if some of them are missing, export these as empty cells"
        )
    if attribute.declared_missing:
        lines.append(
            f"{name}: {attribute.declared_missing} of the missing are values that the file "
            "declares missing"
        )
    if attribute.value_labels:
        pairs = ", ".join(f"{code} ({label})" for label, code in attribute.value_labels.items())
        lines.append(
            f"{name}: the study lists value labels of the file, of which codes are read: ask for "
            f"a study that lists {pairs}, or export the labels to CSV"
        )
    for label, count in attribute.near_labels.items():
        lines.append(
            f"{name}: {count} unknown differ from its label {label} only by capitals, accents, "
            "full width or blanks: if they mean it, list them in a mapping (`dppca-owner map`)"
        )
    lines += outcome_lines(name, attribute.outcomes)
    if attribute.zones:
        lines.append(
            f"{name}: its times have a zone ({', '.join(attribute.zones)}); each counts as its day "
            "there"
        )
    return lines


def mapping_lines(report: CheckReport) -> list[str]:
    """Return where attributes come from by a site's mapping; none without one."""
    title = "Where attributes come from, by this site's mapping (site-only):"
    return [title, *(f"  {line}" for line in report.mapping)] if report.mapping else []


def repeating_line(report: CheckReport) -> str:
    """Return the question that repeating columns ask; empty if there are none, or a key counts."""
    if not report.repeating:
        return ""
    names = ", ".join(report.repeating)
    return (
        f"SEVERAL ROWS OF ONE PERSON? {names} {'say' if len(report.repeating) > 1 else 'says'} so, "
        "and nobody counts them. Name the column that tells people apart (such as record_id) as "
        "`key` of the data set, or --key with --data: a person with more rows than the study "
        "allows loses as many times the epsilon that it promises"
    )


def malformed_lines(report: CheckReport) -> dict[LineFault, str]:
    """Return the number of lines of a CSV file that are no rows, by kind of fault."""
    return {
        kind: f"{_share(found.count, report.rows)} rows {_LINE_FAULTS[kind]}"
        for kind, found in report.malformed_rows.items()
    }


def with_counts(text: str, report: CheckReport) -> str:
    """Return a text on rows between the lines of `alarm_lines` and of `counts_text`."""
    return "\n".join([*alarm_lines(report), text, counts_text(report)])


def with_counts_line(text: str, report: CheckReport, study: str) -> str:
    """Return a text on rows between the lines of `alarm_lines` and `counts_line`."""
    return "\n".join([*alarm_lines(report), text, counts_line(report, study)])


def counts_line(report: CheckReport, study: str) -> str:
    """Return how many attributes have values coded by rule, where the counts were shown before."""
    coded = [
        f"{n} {what}"
        for n, what in (
            (sum(bool(each.by_rule) for each in report.attributes.values()), "attributes"),
            (sum(each.count for each in report.malformed_rows.values()), "malformed lines"),
        )
        if n
    ]
    line = f"Coded by rule: {' and '.join(coded) or 'nothing'}"
    more = [f"{line}; `dppca-owner check {study}` lists them"] if coded else [line]
    return "\n".join(map(one_line, [*more, *_above_lines(report)]))


def counts_text(report: CheckReport) -> str:
    """Return the values coded by rule, by attribute, with their share of the rows."""
    keys = [] if report.key is None else [one_line(f"{key_line(report.key)} (site-only)")]
    if report.key is not None and (asked := alike_line(report.key)):
        keys.append(one_line(asked))
    if asked := repeating_line(report):
        keys.append(one_line(asked))
    lines = ["Values coded by rule (site-only: do not send this list):"]
    lines += [f"  {line}" for line in malformed_lines(report).values()]
    lines += [
        _counts_line(name, attribute, report.rows)
        for name, attribute in report.attributes.items()
        if attribute.by_rule
    ]
    remarks = [f"  {line}" for item in report.attributes.items() for line in _remark_lines(*item)]
    if len(lines) == 1:
        return "\n".join([*keys, f"{lines[0]} none", *map(one_line, remarks)])
    lines += remarks
    lines += [*_above_lines(report), f"  {WARNING}", f"  {_DECISION}"]
    return "\n".join(map(one_line, [*keys, *lines]))


def _above_lines(report: CheckReport) -> list[str]:
    """Return a line with the shares above the study's limit; no line if there are none."""
    shares = ", ".join(f"{name} {share:.1%}" for name, share in report.above.items())
    if not shares:
        return []
    return [
        f"  TOO MANY FAULTS: the study allows {report.refuse_if_above:.1%} of the rows; {shares}. "
        "Correct the export of the data, or tell the operator that the schema does not fit, before "
        "you contribute"
    ]


def check_text(report: CheckReport) -> str:
    """Return every fault, by attribute."""
    lines = [*alarm_lines(report), many(report.rows, "rows")]
    lines += [f"  {line}" for line in report.fact_lines()]
    if report.key is not None:
        lines.append(f"  {key_line(report.key)}")
        lines += [f"  {asked}" for asked in (alike_line(report.key),) if asked]
    if asked := repeating_line(report):
        lines.append(f"  {asked}")
    lines += [f"  {line}" for line in mapping_lines(report)]
    if report.extra_columns:
        lines.append(
            f"  not read, since the schema does not name them: {len(report.extra_columns)}"
        )
    lines += [
        f"  {many(found.count, 'rows')} {_LINE_FAULTS[kind]}: {_rows(found, report)}"
        for kind, found in report.malformed_rows.items()
    ]
    for name, attribute in report.attributes.items():
        for kind, found in attribute.found.items():
            provided = kind is FaultKind.MISSING and attribute.missing_allowed
            allowed = " (the schema says what it counts as)" if provided else ""
            lines.append(
                f"  {name}: {_share(found.count, report.rows)} {kind.value}{allowed}, "
                f"{describe_coding(attribute, kind)}: {_rows(found, report)}"
            )
        lines += [f"  {line}" for line in _remark_lines(name, attribute)]
    if report.target is not None:
        lines.append(_target_line(report.target))
    if report.faultless:
        lines.append("No faults: the data conform to the schema.")
    else:
        lines += [
            *_above_lines(report),
            "A contribution would code these by the schema's public rules; it would not fail.",
            WARNING,
        ]
    return "\n".join(map(one_line, lines))


def _counts_line(name: str, attribute: AttributeReport, n_rows: int) -> str:
    kinds = ", ".join(
        f"{found.count} {kind.value}, {describe_coding(attribute, kind)}"
        for kind, found in attribute.found.items()
    )
    return f"  {name}: {_share(attribute.by_rule, n_rows)} ({kinds})"


def _share(count: int, n_rows: int) -> str:
    return f"{count} of {n_rows} ({count / n_rows:.2%})"


def _target_line(target: TargetReport) -> str:
    line = f"  {target.name}: {target.occurring} of {target.labels} labels occur"
    if target.trainable:
        return line
    return (
        f"{line}: a model that stays here cannot be trained on it; one that may leave would be, "
        "and always say the same"
    )


def _rows(found: FaultCount, report: CheckReport) -> str:
    """Return row numbers; for several files, each file's number with the row number in it."""
    rows, ends = found.rows, list(accumulate(report.files))
    shown = [
        f"{row - ends[file] + report.files[file]} of file {file + 1}" if ends else str(row)
        for row, file in ((row, bisect_left(ends, row)) for row in rows)
    ]
    more = f" and {found.count - len(rows)} more" if found.count > len(rows) else ""
    return f"rows {', '.join(shown)}{more}" if rows else "rows not listed"
