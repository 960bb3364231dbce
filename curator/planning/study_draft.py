"""Draft of a study file from a data dictionary.

A value that neither the dictionary nor the operator gives is left blank on purpose, with a comment
that explains it: no bound, no budget and no number of rows per person has a default.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from shlex import quote

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.stated_fields import MAX_CONCEPT, MAX_DESCRIPTION, MAX_UNIT
from dppca.common.kernel.privacy.laws import choose_law
from dppca.common.kernel.schema.attributes import MAX_LABEL_LENGTH
from dppca.common.kernel.schema.units import NeighbourRelation
from dppca.common.shell.dictionaries.dictionary import (
    Codes,
    Dictionary,
    Entry,
    EntryType,
    join_notes,
)

DAYS = 31
"""Days that a drafted study waits for its owners."""
_NUMBERS = (EntryType.NUMBER, EntryType.INTEGER)
_REGRESSORS = 3  # in a proposed question: a usual number
DECIDE = "DECIDE"
"""Word in the comment of every blank place."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?: [A-Za-z0-9_]+)*")
_NOT_PLAIN = {"true", "false", "null"}
_FAULTS = (
    "# `check` and `review` refuse above this share of an attribute's values, such as a code for",
    "# missing that the study does not name. Loosen it or leave it out, before any row is read.",
    "faults: {refuse_if_above: 0.05}",
    "",
)


def _weights(choices: "Choices", *, joint: bool) -> Iterator[str]:
    """Lines of the weights of sums, of squares and of a noised number of rows."""
    if joint:
        # The number of rows, if it is noised, has this weight, too.
        yield f"  sum_weight: {1 if choices.has_count else 0.75:g}"
        yield "  resolution_bits: 14 # on a coarser grid this noise would be a little larger"
    else:
        yield "  sum_weight: 0.5"
    if choices.square_weight != 1:
        yield (
            f"  square_weight: {choices.square_weight} # of numbers' squares, at no cost under "
            "this mechanism; `plan` finds it again"
        )
    if choices.count_weight != 1:
        yield (
            f"  count_weight: {choices.count_weight:g} # of the noised number of rows, by a "
            "forecast; `plan` finds it again"
        )


def _unit(choices: "Choices") -> Iterator[str]:
    """Lines of whose rows are protected, and of what the promise compares."""
    if choices.rows_counted is None:
        yield "  " + _field(
            "max_rows_per_person",
            None if choices.rows_per_person is None else str(choices.rows_per_person),
            "the most rows that one person may have at one owner; or `unit: person` if unknown",
        )
    else:
        yield "  unit: person # all rows of a person weigh as at most so many:"
        yield f"  rows_counted: {choices.rows_counted}"
    if choices.neighbours is not None:
        yield f"  neighbours: {choices.neighbours.value}"


def _joint_remark(choices: "Choices") -> str:
    if choices.joint is None:
        return ""
    name, share = choices.joint
    return f" # `--mechanism {name}` has {share:.2f} times the noise of covariances"


@dataclass(frozen=True, slots=True)
class Choices:
    """The operator's choices besides the dictionary; None or empty leaves a place blank.

    ``mechanism`` names the law of the noise; None is the usual one with or without a delta.

    ``bins`` are those that `dppca.curator.planning.proposals` proposes; every other number then has
    a histogram. ``deadline`` is when the study stops waiting; None leaves it out, with its quorum.
    ``rows_counted`` is for people; None asks how many rows one has. ``neighbours`` is left out if
    it is None. ``square_weight`` is the largest that costs nothing, ``count_weight`` what a
    forecast proposes; ``joint`` a law with less noise of the covariance, and its part of this
    one's.
    """

    name: str | None = None
    owners: tuple[str, ...] = ()
    epsilon: str | None = None
    delta: str | None = None
    rows_per_person: int | None = None
    target: str | None = None
    histograms: bool = False
    stated: Stated = field(default_factory=Stated)
    bins: Mapping[str, int] | None = None
    mechanism: str | None = None
    deadline: datetime | None = None
    rows_counted: int | None = None
    neighbours: NeighbourRelation | None = None
    square_weight: int = 1
    count_weight: float = 1.0
    joint: tuple[str, float] | None = None

    @property
    def has_count(self) -> bool:
        """Whether the number of rows, or the total weight of people, leaves with noise."""
        return self.neighbours is NeighbourRelation.ADDED or (self.rows_counted or 1) > 1


def choose_deadline(now: datetime) -> datetime:
    """Return a draft's deadline: noon (UTC), `DAYS` after a time."""
    day = now.astimezone(UTC) + timedelta(days=DAYS)
    return day.replace(hour=12, minute=0, second=0, microsecond=0)


def choose_quorum(n_owners: int) -> int:
    """Return a draft's quorum: all owners but one, and two at least if there are two."""
    return max(min(n_owners, 2), n_owners - 1)


def draft_study(dictionary: Dictionary, choices: Choices, *, source: str) -> str:
    """Return the text of the study file; ``source`` is the dictionary's file name, for the head."""
    law = choose_law(choices.mechanism, choices.delta)
    lines = [
        f"# A study, drafted from {one_line(source)}, a {dictionary.form}. Where {DECIDE} stands,",
        "# something is left blank on purpose. Bounds and labels come from documentation and from",
        "# people who know the subject, never from rows: a choice made from data is outside the",
        "# privacy guarantee. `dppca-curator study check` says what is still wrong or missing.",
        "",
        _field("name", choices.name, "a short name: a-z 0-9 . _ -"),
        *(
            _field(
                each.name, text and json.dumps(text, ensure_ascii=False), each.metadata["meaning"]
            )
            for each in fields(Stated)
            if (text := getattr(choices.stated, each.name)) or each.metadata["wanted"]
        ),
        _field(
            "owners",
            f"[{', '.join(choices.owners)}]" if choices.owners else None,
            "the names in the owners' certificates, such as [hospital, clinic]",
        ),
        *_waiting_lines(choices),
        "",
        "privacy:",
        f"  mechanism: {law.name}{_joint_remark(choices)}",
        "  "
        + _field(
            "epsilon",
            choices.epsilon and f'"{choices.epsilon}"',
            'what each owner\'s release may cost a person, such as "1.0"',
        ),
        *([] if choices.delta is None else [f'  delta: "{choices.delta}"']),
        "",
        *_question_lines(dictionary, choices),
        *_FAULTS,
        "components: {above_noise: true} # or {count: 8} or {contribution_rate: 0.85}",
        "",
        "schema:",
        *(f"  # {line}" for line in _repeating_lines(dictionary)),
        *_unit(choices),
        *_weights(choices, joint=law.is_joint),
        *([] if choices.target is None else [f"  targets: [{scalar(choices.target)}]"]),
        *([f"  missing_values: {_codes(dictionary.missing)}"] if dictionary.missing else []),
        "  attributes:",
        *(line for entry in dictionary.entries for line in _attribute(entry, choices)),
    ]
    if dictionary.omitted:
        lines += ["", "# Left out; add what the study is about:"]
        lines += [f"#   {one_line(each.name)}: {each.reason}" for each in dictionary.omitted]
    if dictionary.notes:
        lines += ["", "# Said by the dictionary, and not carried over:"]
        lines += [f"#   {one_line(each)}" for each in dictionary.notes]
    if dictionary.written:
        lines += ["", "# Of the files; a site's policy says it, beside the path of the data:"]
        lines += [f"#   {policy_format(dictionary)}"]
    return "\n".join(lines) + "\n"


def _waiting_lines(choices: Choices) -> list[str]:
    if choices.deadline is None or not choices.owners:
        return []
    quorum = choose_quorum(len(choices.owners))
    return [
        f"quorum: {quorum} # owners that are enough once the deadline has passed",
        f"deadline: {choices.deadline.isoformat()}",
    ]


def _question_lines(dictionary: Dictionary, choices: Choices) -> list[str]:
    """Propose questions of the first columns; about the target, if there is one."""
    kinds = {each.name: each.kind for each in dictionary.entries}
    numbers = [name for name, kind in kinds.items() if kind in _NUMBERS]
    labels = [name for name, kind in kinds.items() if kind in (EntryType.LABEL, EntryType.ORDINAL)]
    target = choices.target
    first = target if target in numbers else next(iter(numbers), None)
    by = target if target in labels else next(iter(labels), None)
    asked = []
    if first is not None:
        asked.append(f"mean {quote(first)}" + (f" by {quote(by)}" if by else ""))
    if len(labels) > 1:
        asked.append(f"table {quote(labels[0])} {quote(labels[1])}")
    kind = "ols" if target in numbers else "logit"
    beside = kinds if kind == "ols" else labels  # numbers of a logit need a table with their cells
    if target is not None and (x := [each for each in beside if each != target][:_REGRESSORS]):
        asked.append(" ".join([kind, *map(quote, (target, *x))]))
    return (
        [
            "# What it is to answer; stewards see it, `plan` forecasts it. Take what you need:",
            f"# questions: {json.dumps(asked, ensure_ascii=False)}",
        ]
        if asked
        else []
    )


def _repeating_lines(dictionary: Dictionary) -> Iterator[str]:
    """Lines on a person's rows, where the dictionary says that there may be several."""
    if dictionary.repeating:
        yield f"A person may have several rows, by {one_line(', '.join(dictionary.repeating))}:"
        yield "count those of all events, visits and instruments. A site counts them by its `key`."


def policy_format(dictionary: Dictionary) -> str:
    """Return the line of a site's policy that says how its files are written; empty for none."""
    pairs = [f"{key}: {json.dumps(mark)}" for key, mark in dictionary.written.items()]
    return f"format: {{{', '.join(pairs)}}}" if pairs else ""


def open_places(text: str) -> list[str]:
    """Blank places of a draft: the field of each, with its attribute if it has one."""
    places, attribute = [], ""
    for line in text.splitlines():
        if line.startswith("    - name: "):
            attribute = line.removeprefix("    - name: ").strip('"')
        if f"# {DECIDE}" in line:
            field = line.strip().partition(":")[0].removeprefix("- ")
            places.append(f"{field} of {attribute}" if line.startswith("      ") else field)
    return places


def scalar(text: str) -> str:
    """Format text as a YAML scalar: bare words, or quoted."""
    bare = _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN
    return text if bare else json.dumps(text, ensure_ascii=False)


def _attribute(entry: Entry, choices: Choices) -> Iterator[str]:
    if entry.one_hot:
        pairs = zip(entry.one_hot, entry.labels, strict=True)
        columns = ", ".join(f"{scalar(column)}: {scalar(label)}" for column, label in pairs)
        yield "    # Of one-hot columns; a site's policy joins them, beside the path of the data:"
        yield f"    # one_hot: {{{scalar(entry.name)}: {{{columns}}}}}"
    yield f"    - name: {scalar(entry.name)}"
    if entry.missing is not None:
        yield f"      missing_values: {_codes(entry.missing)}"
    counts = entry.kind in (EntryType.NUMBER, EntryType.INTEGER)
    unit = _cut(entry.unit, MAX_DESCRIPTION)
    if counts and len(unit) <= MAX_UNIT:  # a longer one is told in the description
        if unit:
            yield f"      unit: {scalar(unit)}"
        unit = ""
    if note := _cut(join_notes(entry.note, unit), MAX_DESCRIPTION):
        yield f"      description: {scalar(note)}"
    if concept := _cut(entry.concept, MAX_CONCEPT):
        yield f"      concept: {scalar(concept)}"
    if entry.kind in (EntryType.LABEL, EntryType.ORDINAL):
        yield from (f"      {line}" for line in _labels(entry))
    else:
        yield f"      type: {'date' if entry.kind is EntryType.DATE else 'numeric'}"
        yield f"      {_field('lower', entry.lower, 'a public bound; what is below counts as it')}"
        yield f"      {_field('upper', entry.upper, 'a public bound; what is above counts as it')}"
        if entry.kind is EntryType.INTEGER:
            yield "      integer: true"
        if (entry.nullable or entry.missing) and entry.kind is not EntryType.DATE:
            binned = choices.bins is not None and entry.name in choices.bins
            yield f"      missing: {'level' if binned else 'indicator'}"
    if entry.kind is EntryType.LABEL or len(entry.labels) == 2:
        return
    if choices.bins is not None and entry.name in choices.bins:
        yield f"      bins: {choices.bins[entry.name]} # proposed by the noise, never from rows"
        yield "      products: bins"
    elif choices.histograms or choices.bins is not None:
        yield "      histogram: true"


def _labels(entry: Entry) -> Iterator[str]:
    labels = [scalar(label) for label in entry.labels]
    n_labels = len(labels) + (entry.unknown is not None)
    if entry.kind is EntryType.ORDINAL and n_labels != 2:
        kind, field = "ordinal", "levels"
    else:
        kind, field = (
            ("binary", "values")
            if n_labels == 2 and not entry.unknown
            else ("categorical", "categories")
        )
    yield f"type: {kind}"
    listed = f"[{', '.join(labels)}]" if n_labels >= 2 and not entry.decide else None
    usual = "the labels that can occur, two at least, such as [no, yes]"
    yield _field(field, listed, one_line(entry.decide) or usual)
    if entry.unknown is not None and entry.kind is EntryType.LABEL:
        yield f"unknown: {scalar(entry.unknown)}"


def _codes(codes: Codes) -> str:
    """Format codes for missing as a mapping of YAML."""
    pairs = [f"{scalar(code)}: {scalar(_cut(words, MAX_LABEL_LENGTH))}" for code, words in codes]
    return f"{{{', '.join(pairs)}}}"


def _cut(text: str, most: int) -> str:
    """Return a text on one line, cut where a study has no more room."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def _field(name: str, value: str | None, meaning: str) -> str:
    return f"{name}: {value}" if value is not None else f"{name}: # {DECIDE}: {meaning}"
