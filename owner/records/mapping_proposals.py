"""Proposals of which column is which attribute, and which word is which label.

A person decides every line. Names and words are compared by their normal forms; how often a value
occurs, and with what, is never asked: a table that was chosen by counts would not be one function
of each row. Codes are not compared either: only the words that a file or a dictionary gives them.

*Sure* are names of one normal form, or of the same words, that no other column comes near, equal
concepts, and equal words; a yes is still needed. *Doubtful* is what is like, and what is alike by
its description alone. All else is left to the person.

Short words mean what their set says: ``m`` is male beside ``w`` and female beside ``h``. They, and
1 beside 0, are doubtful always.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from types import MappingProxyType
from typing import Final

from dppca.common.kernel.schema import Attribute
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.kernel.schema.missing_codes import codes_of
from dppca.common.kernel.schema.texts import MISSING_WORDS, label_finder
from dppca.owner.records.normal_forms import likeness, normal_form

SURE_FROM: Final = 0.9  # likeness of names, 1 where they are equal
DOUBTFUL_FROM: Final = 0.55  # likeness; what is less is not proposed
_AHEAD: Final = 0.05  # of the next likely column
_OF_LABELS: Final = 0.15  # of likeness, for labels that the words cover
_OF_A_CONCEPT: Final = 0.98  # likeness of equal concepts, that of one normal form
_OF_DESCRIPTIONS: Final = 0.8  # of likeness: no description is sure
_LEAST_LETTERS: Final = 3  # letters of a meaning that likeness can tell

_PAIRS: Final = {
    "sex": (
        *(("male", "female"), ("man", "woman"), ("men", "women"), ("boy", "girl")),
        *(("mannlich", "weiblich"), ("maennlich", "weiblich"), ("mann", "frau")),
        *(("homme", "femme"), ("masculin", "feminin"), ("hombre", "mujer")),
        *(("masculino", "femenino"), ("masculino", "feminino"), ("uomo", "donna")),
        *(("maschio", "femmina"), ("man", "vrouw"), ("mand", "kvinde"), ("mann", "kvinne")),
        *(("man", "kvinna"), ("mezczyzna", "kobieta"), ("muz", "zena"), ("mies", "nainen")),
        *(("m", "f"), ("m", "w"), ("m", "k"), ("m", "v"), ("h", "m"), ("h", "f")),
    ),
    "answer": (
        *(("yes", "no"), ("y", "n"), ("ja", "nein"), ("j", "n"), ("oui", "non"), ("o", "n")),
        *(("si", "no"), ("s", "n"), ("sim", "nao"), ("ja", "nee"), ("ja", "nej")),
        *(("ja", "nei"), ("tak", "nie"), ("ano", "ne"), ("kylla", "ei"), ("igen", "nem")),
        *(("da", "nu"), ("true", "false"), ("t", "f"), ("1", "0")),
    ),
}
"""Pairs of words of which the first means male, or yes, in normal forms."""


class Sureness(StrEnum):
    """How sure a proposal is; none is taken without a yes."""

    SURE = "sure"
    DOUBTFUL = "doubtful"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class ColumnProposal:
    """A column for an attribute, and why; ``column`` is empty if none is like it."""

    column: str
    sureness: Sureness
    why: str


@dataclass(frozen=True, slots=True)
class LabelProposal:
    """A label of the study for a cell, and what the cell means; empty if none is like it."""

    label: str
    sureness: Sureness
    words: str


@dataclass(frozen=True, slots=True)
class SiteColumn:
    """A column of a site.

    ``words`` are what its cells mean, by cell, if they are labels; ``absent`` are cells that the
    file has a label for, and no row: what it declares missing is among them. ``note``, ``concept``
    and ``missing`` (codes) are what the site's dictionary says of it.
    """

    name: str
    words: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    absent: frozenset[str] = frozenset()
    note: str = ""
    concept: str = ""
    missing: tuple[str, ...] = ()


def propose_columns(
    attributes: Sequence[Attribute], columns: Sequence[SiteColumn]
) -> dict[str, ColumnProposal]:
    """Return a proposal for each attribute, by names and by labels that their words cover."""
    found = {each.name: _propose_column(each, columns) for each in attributes}
    wanted: dict[str, list[str]] = {}
    for name, each in found.items():
        if each.sureness is Sureness.SURE:
            wanted.setdefault(each.column, []).append(name)
    for names in wanted.values():
        for name in names if len(names) > 1 else ():
            first = found[name]
            why = f"{first.why}; {' and '.join(names)} are like this one column"
            found[name] = ColumnProposal(first.column, Sureness.DOUBTFUL, why)
    return found


def _propose_column(attribute: Attribute, columns: Sequence[SiteColumn]) -> ColumnProposal:
    scores = sorted(
        ((_score(attribute, each), each.name) for each in columns), key=lambda each: -each[0]
    )
    best, column = scores[0] if scores else (0.0, "")
    found = next((each for each in columns if each.name == column), SiteColumn(""))
    by_name, why = _by_name(attribute, found)
    next_best = scores[1][0] if len(scores) > 1 else 0.0
    if best < DOUBTFUL_FROM:
        return ColumnProposal("", Sureness.LEFT, "no name is like it")
    is_sure = min(best, by_name) >= SURE_FROM and best - next_best >= _AHEAD
    why = why if by_name >= _by_description(attribute, found) else "by description"
    return ColumnProposal(column, Sureness.SURE if is_sure else Sureness.DOUBTFUL, why)


def base_score(attribute: Attribute, column: SiteColumn) -> float:
    """Return how like a column is by its name, concept and description, labels aside."""
    return max(_by_name(attribute, column)[0], _by_description(attribute, column))


def _by_name(attribute: Attribute, column: SiteColumn) -> tuple[float, str]:
    """Return how like name and concept are, and why; a concept counts where both have one."""
    score = likeness(attribute.name, column.name)
    ours, theirs = (_plain_concept(each) for each in (attribute.concept or "", column.concept))
    if ours and ours == theirs:
        return max(score, _OF_A_CONCEPT), "the same concept"
    if ours and theirs:
        return min(score, _OF_DESCRIPTIONS), "another concept"
    return score, _why(score)


def _plain_concept(concept: str) -> str:
    return "".join(concept.split()).casefold()


def _by_description(attribute: Attribute, column: SiteColumn) -> float:
    """Return how like what is said of both is; never enough to be sure."""
    words, said = (
        {word for word in normal_form(text).split() if len(word) >= _LEAST_LETTERS}
        for text in (attribute.description or "", column.note)
    )
    shared = len(words & said) / max(len(words | said), 1)
    return _OF_DESCRIPTIONS * max(shared, likeness(attribute.name, column.note))


def _why(score: float) -> str:
    for least, why in ((1.0, "the same name"), (0.98, "the same but for capitals and marks")):
        if score >= least:
            return why
    return "the same words" if score >= SURE_FROM else "a like name"


def _score(attribute: Attribute, column: SiteColumn) -> float:
    score, labels = base_score(attribute, column), list_labels(attribute)
    if labels is None or not column.words or score < DOUBTFUL_FROM:
        return score
    given = propose_labels(attribute, column.words).values()
    covered = {each.label for each in given if each.sureness is not Sureness.LEFT}
    return score + (_OF_LABELS * len(covered) / len(labels) if covered else -_OF_LABELS)


def propose_labels(attribute: Attribute, words: Mapping[str, str]) -> dict[str, LabelProposal]:
    """Return a label for each cell of a column, by what the cell means.

    A word of the study is itself; a code that the study lists, and whose words are not like any of
    its labels, is doubtful. Cells that are missing are left out.
    """
    labels = list_labels(attribute) or ()
    find, is_code = label_finder(labels), label_finder(codes_of(attribute))
    asked = {
        cell: meaning
        for cell, meaning in words.items()
        if is_code(cell) is None and cell.strip() and not _is_missing_word(cell, labels)
    }
    by_pairs, found = _of_pairs(labels, asked), dict[str, LabelProposal]()
    for cell, meaning in asked.items():
        place = find(cell.strip()) if cell == meaning else None
        if place is not None:
            found[cell] = LabelProposal(labels[place], Sureness.SURE, meaning)
        elif cell in by_pairs:
            found[cell] = by_pairs[cell]
        else:
            found[cell] = _like(labels, meaning)
            place = find(cell.strip())
            if found[cell].sureness is Sureness.LEFT and place is not None:
                found[cell] = LabelProposal(labels[place], Sureness.DOUBTFUL, meaning)
    return found


def _is_missing_word(cell: str, labels: Sequence[str]) -> bool:
    return cell.strip() in MISSING_WORDS and cell.strip() not in labels


def _of_pairs(labels: Sequence[str], words: Mapping[str, str]) -> dict[str, LabelProposal]:
    """Return what a set of two words decides; nothing if two sets say different things."""
    ours = {normal_form(label): label for label in labels}
    if len(ours) < len(labels):
        return {}
    forms = {cell: normal_form(meaning) for cell, meaning in words.items()}
    present, readings = {*forms.values()}, list[dict[str, LabelProposal]]()
    for pairs in _PAIRS.values():
        for mine, theirs in product(pairs, pairs):
            if not {*mine} <= ours.keys() or not {*theirs} <= present:
                continue
            short = min(map(len, theirs)) == 1
            sureness = Sureness.DOUBTFUL if short else Sureness.SURE
            meant = {word: ours[own] for word, own in zip(theirs, mine, strict=True)}
            readings.append(
                {
                    cell: LabelProposal(meant[form], sureness, words[cell])
                    for cell, form in forms.items()
                    if form in meant
                }
            )
    agree = readings and all(each == readings[0] for each in readings)
    return readings[0] if agree else {}


def _like(labels: Sequence[str], meaning: str) -> LabelProposal:
    scores = sorted(((likeness(label, meaning), label) for label in labels), reverse=True)
    (best, label), *others = scores or [(0.0, "")]
    ahead = best - (others[0][0] if others else 0.0)
    if best >= 1.0 or (best >= SURE_FROM and ahead >= _AHEAD):
        return LabelProposal(label, Sureness.SURE, meaning)
    is_short = len(normal_form(meaning)) < _LEAST_LETTERS
    if is_short or best < DOUBTFUL_FROM or ahead < _AHEAD:
        return LabelProposal("", Sureness.LEFT, meaning)
    return LabelProposal(label, Sureness.DOUBTFUL, meaning)
