"""A mapping in words: a line for each attribute that is not the column of its own name.

A reader compares each line with the codebook. The strongest attack on a mapping is another column
under an innocent name, so every line names its columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dppca.common.kernel.documents.names import one_line
from dppca.owner.records.faults import CellOutcome

if TYPE_CHECKING:
    from dppca.owner.records.mapping_cells import MappedColumns
    from dppca.owner.records.mapping_rules import Rule, Test

_MOST_LINES: Final = 12  # of a table that are shown
_OUTCOMES: Final = {
    CellOutcome.CODE: "{} of the missing are codes of the mapping",
    CellOutcome.OTHERWISE: "{} that the mapping does not list are what it says otherwise",
    CellOutcome.NO_CASE: "{} rows are missing, since no case holds",
}


def describe_mapping(mapped: MappedColumns) -> tuple[str, ...]:
    """Return where each attribute comes from; it may hold words of rows, and is site-only."""
    from dppca.owner.records.mapping_rules import Rule  # few data sets have a mapping

    own = [name for name, rule in mapped.rules.items() if rule == Rule(column=name.strip())]
    others = {name: rule for name, rule in mapped.rules.items() if name not in own}
    lines = [f"{name} is {describe_rule(rule)}" for name, rule in others.items()]
    if own:
        lines.append(f"by their own names: {', '.join(own)}")
    if mapped.missing:
        lines.append(f"missing in every column: {', '.join(mapped.missing)}")
    unused = _unused_labels(mapped)
    return (*map(one_line, lines), *map(one_line, unused))


def outcome_lines(name: str, outcomes: Mapping[CellOutcome, int]) -> list[str]:
    """Return how many cells of an attribute a mapping read by a rule."""
    return [f"{name}: {_OUTCOMES[kind].format(n)}" for kind, n in outcomes.items() if n]


def describe_rule(rule: Rule) -> str:
    """Return where the cells of a rule come from."""
    if rule.constant is not None:
        return f"{rule.constant} in every row"
    if rule.absent:
        return "missing in every row"
    if rule.one_hot is not None:
        pairs = ", ".join(f"{column} is {label}" for column, label in rule.one_hot.items())
        return f"the one column that is 1: {pairs}"
    if rule.first_of is not None:
        parts = "; else ".join(describe_rule(each) for each in rule.first_of)
        return f"the first that is not missing of: {parts}"
    if rule.cases is not None:
        tests = [" and ".join(_test(c, t) for c, t in each.tests.items()) for each in rule.cases]
        then = [describe_rule(each.then) for each in rule.cases]
        parts = "; ".join(f"where {a}: {b}" for a, b in zip(tests, then, strict=True))
        return f"by cases: {parts}; else missing"
    codes = "" if rule.missing is None else f" (missing: {', '.join(rule.missing) or 'no code'})"
    return f"{_step(rule)}{codes}"


def _step(rule: Rule) -> str:
    column = rule.column
    if rule.recode is not None:
        other = "unknown" if rule.otherwise is None else rule.otherwise
        return f"column {column}: {_table(rule.recode)}; else {other}"
    if rule.cut is not None:
        edges = [f"{edge:g}" for edge in rule.cut.edges]
        parts = [f"below {edges[0]} {rule.cut.labels[0]}"]
        parts += [f"from {e} {label}" for e, label in zip(edges, rule.cut.labels[1:], strict=True)]
        return f"column {column}: {', '.join(parts)}"
    if rule.part is not None:
        return f"the {rule.part} of column {column}"
    if rule.age_on is not None:
        return f"completed years from column {column} to {_day(rule)}"
    if rule.days_to is not None:
        return f"days from column {column} to {_day(rule)}"
    if rule.is_linear:
        return _arithmetic(rule)
    return f"column {column}, as it is"


def _day(rule: Rule) -> str:
    other = rule.other_column
    return str(rule.age_on or rule.days_to) if other is None else f"column {other}"


def _arithmetic(rule: Rule) -> str:
    text, whole = f"column {rule.column}", True
    for value, sign in ((rule.minus, "-"), (rule.times, "x"), (rule.over, "/"), (rule.plus, "+")):
        if value is not None:
            inner = text if whole or sign == "+" else f"({text})"
            text, whole = f"{inner} {sign} {value!r}", sign in "x/"
    return f"{text}, rounded down" if rule.round else text


def _table(recode: Mapping[str, str]) -> str:
    if len(recode) <= _MOST_LINES:
        return ", ".join(f"{word} is {label}" for word, label in recode.items())
    counts = Counter(recode.values())
    return ", ".join(f"{count} words are {label}" for label, count in counts.items())


def _test(column: str, test: Test) -> str:
    if test.missing:
        return f"{column} is missing"
    if test.one_of is not None:
        return f"{column} is {' or '.join(test.one_of)}"
    ends = [
        *([] if test.at_least is None else [f"{test.at_least:g} or more"]),
        *([] if test.below is None else [f"below {test.below:g}"]),
    ]
    return f"{column} is {' and '.join(ends)}"


def _unused_labels(mapped: MappedColumns) -> list[str]:
    """Return labels of the study that no line of a table gives."""
    lines = []
    for attribute in mapped.schema.attributes:
        rule = mapped.rules.get(attribute.name)
        labels = getattr(attribute, "categories", None) or getattr(attribute, "labels", None)
        if rule is None or labels is None:
            continue
        given: set[str] = set()
        for each in rule.walk():
            if each.is_plain:
                given |= {*labels}
            given |= {*(each.recode or {}).values(), *(each.one_hot or {}).values()}
            given |= {*(each.cut.labels if each.cut else ())}
            given |= {label for label in (each.otherwise, each.constant) if label is not None}
            if each.is_linear or each.part or each.age_on or each.days_to:
                given |= {*labels}
        if unused := [label for label in labels if label not in given]:
            lines.append(f"no row can be {', '.join(unused)} of {attribute.name}")
    return lines
