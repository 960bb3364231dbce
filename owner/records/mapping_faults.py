"""Faults of a mapping beside a study and a source, found before a row is read, all at once."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dppca.common.kernel.documents.names import nearest_name
from dppca.common.kernel.schema import Attribute, Categorical, Numeric
from dppca.common.kernel.schema.attributes import Date, Ordinal, list_labels
from dppca.common.kernel.schema.missing_codes import codes_of
from dppca.common.kernel.schema.texts import label_finder
from dppca.owner.records.mapping_cells import MappedColumns, missing_rows, parse_targets
from dppca.owner.records.mapping_rules import MappingDocument, Rule
from dppca.owner.records.sources import Source

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class MappingFault:
    """Fault at a place of a mapping file: keys and places in lists, from the outermost."""

    path: Path
    words: str


def find_faults(document: MappingDocument, mapped: MappedColumns) -> Iterator[MappingFault]:
    """Yield what does not fit the study: attributes, cells that rules give, kinds of columns."""
    attributes = {each.name: each for each in mapped.schema.attributes}
    for name, outer in document.attributes.items():
        path = ("attributes", name)
        attribute = attributes.get(name)
        if attribute is None:
            near = nearest_name(name, attributes)
            said = "" if near is None else f"; did you mean {near}?"
            yield MappingFault(path, f"the study has no attribute {name}{said}")
            continue
        for place, rule in _walk(outer, path):
            yield from _of_rule(place, rule, attribute, document)
    for column, kinds in mapped.kinds().items():
        if len(kinds) > 1:
            users = [n for n, rule in mapped.rules.items() if column in rule.columns]
            own = next((n for n in users if n in document.attributes), users[0])
            yield MappingFault(
                ("attributes", own),
                f"column {column} is read as {' and as '.join(kinds)} (by {', '.join(users)}): a "
                "column has one kind",
            )


def find_column_faults(mapped: MappedColumns, source: Source) -> Iterator[MappingFault]:
    """Yield columns that a file of the source lacks, or has twice."""
    for name, rule in mapped.rules.items():
        for column in dict.fromkeys(rule.columns):
            for part in source.parts:
                count = part.names.count(column.strip())
                if count == 1:
                    continue
                near = nearest_name(column, part.names)
                words = (
                    f"{part.title} has {'no' if count == 0 else 'more than one'} column {column}"
                )
                said = "" if count or near is None else f"; did you mean {near}?"
                yield MappingFault(("attributes", name), f"{words}{said}")


def _walk(rule: Rule, path: Path) -> Iterator[tuple[Path, Rule]]:
    yield path, rule
    for place, inner in enumerate(rule.first_of or ()):
        yield from _walk(inner, (*path, "first_of", place))
    for place, case in enumerate(rule.cases or ()):
        yield from _walk(case.then, (*path, "cases", place, "then"))


def _of_rule(
    path: Path, rule: Rule, attribute: Attribute, document: MappingDocument
) -> Iterator[MappingFault]:
    for place, target in _targets(rule):
        if not _is_target(attribute, target):
            near = nearest_name(target, list_labels(attribute) or ())
            said = "" if near is None else f"; did you mean {near}?"
            yield MappingFault((*path, *place), f"{target} is {_no_value(attribute)}{said}")
    if rule.absent and not _may_be_missing(attribute):
        yield MappingFault(
            path, f"absent: the study does not say what a missing {attribute.name} counts as"
        )
    codes = document.missing if rule.missing is None else rule.missing
    plain = (list_labels(attribute) or ()) if rule.is_plain else ()
    words = [*(rule.recode or plain)]
    find = label_finder(codes)
    for word in words if rule.column is not None else ():
        if find(word) is not None:
            yield MappingFault(
                (*path, "recode", word),
                f"{word} is also a code for missing: it means something, or is missing. Give this "
                "rule its own missing: [...]",
            )
    if isinstance(attribute, Date) and (rule.is_linear or rule.part or rule.age_on or rule.days_to):
        yield MappingFault(path, f"it gives a number, and {attribute.name} is a day")


def _targets(rule: Rule) -> Iterator[tuple[Path, str]]:
    for key, target in (rule.recode or {}).items():
        yield ("recode", key), target
    for place, label in enumerate(rule.cut.labels if rule.cut else ()):
        yield ("cut", "labels", place), label
    for key, label in (rule.one_hot or {}).items():
        yield ("one_hot", key), label
    for name in ("otherwise", "constant"):
        if (target := getattr(rule, name)) is not None:
            yield (name,), target


def _is_target(attribute: Attribute, target: str) -> bool:
    """True for a label, number or day of the attribute, and for its code for missing."""
    value = parse_targets(attribute, (target,))
    if missing_rows(value)[0]:
        return label_finder(codes_of(attribute))(target) is not None
    return bool(np.isfinite(value[0]) and (list_labels(attribute) is None or value[0] >= 0))


def _no_value(attribute: Attribute) -> str:
    labels: Sequence[str] | None = list_labels(attribute)
    if labels is not None:
        shown: Collection[str] = labels[:8]
        return f"none of {', '.join(shown)}{', ...' if len(labels) > len(shown) else ''}"
    return "no day such as 2020-01-31" if isinstance(attribute, Date) else "no number"


def _may_be_missing(attribute: Attribute) -> bool:
    if isinstance(attribute, Categorical) and attribute.unknown is not None:
        return True
    if isinstance(attribute, Numeric) and not isinstance(attribute, Ordinal):
        return attribute.missing is not None
    return attribute.missing is not None
