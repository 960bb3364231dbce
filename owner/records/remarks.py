"""Remarks on how a column was written, although no cell of it is at fault.

Words for missing values say who wrote them. Times with a zone count as days of that zone; a column
whose times are all midnights of another zone, such as 22:00 and 23:00 in UTC, has each day one too
early, which no cell shows. Remarks are `site-only`, and of raw cells: coding does not know them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dppca.common.kernel.schema import UNKNOWN, Attribute, Column, Numeric
from dppca.common.kernel.schema.attributes import Date, list_labels
from dppca.common.kernel.schema.columns import cell_texts, local_seconds, of_extension, plain_cells
from dppca.common.kernel.schema.decimals import is_short, shortest_decimals
from dppca.common.kernel.schema.missing_codes import codes_of, value_of
from dppca.common.kernel.schema.texts import (
    MISSING_WORDS,
    NOT_A_NUMBER,
    label_finder,
    seconds_of_text,
)
from dppca.owner.records.faults import CodeCount
from dppca.owner.records.normal_forms import normal_form

Rows = NDArray[np.bool_]
_DAY_S: Final = 86_400  # in a day
_MOST_TIMES = 3  # of a zone's midnights elsewhere: winter, summer, and a double summer time
_APART_S, _STEP_S, _LATE_S, _NOON_S = 7200, 900, 36_000, 43_200  # of times of the day
_DAY_CHARACTERS = 10  # of `2020-01-31`
_FIRST = 64  # cells, which mostly settle it
_MOST_UNKNOWN: Final = 1000  # distinct cells of a batch: more are free text, and no labels


class Remarks:
    """Remarks on one attribute, of all batches that were merged.

    ``words`` counts cells that are a word for missing, ``coded`` cells that are a code of the study
    for it, ``listed`` cells whose label is such a word, ``declared`` cells that a file declares
    missing (nulls of its list of values), ``near`` unknown cells of the normal form of one label,
    by that label, ``zones`` are those of times, ``times`` the seconds of
    the day that its times have; None if there are more than a few.
    """

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        labels = list_labels(attribute) or ()
        self._listed = {code: label for code, label in enumerate(labels) if label in MISSING_WORDS}
        self.words: Counter[str] = Counter()
        self.coded: Counter[str] = Counter()
        self.listed: Counter[str] = Counter()
        forms = Counter(map(normal_form, labels))
        self._forms = {  # of words: -1 is a number, and not 1 with a mark
            form: label
            for label in labels
            if forms[form := normal_form(label)] == 1 and any(map(str.isalpha, form))
        }
        self.near: Counter[str] = Counter()
        self.declared = 0
        self.zones: set[str] = set()
        self.times: set[int] | None = set()

    def of(self, cells: pa.Array, column: Column, missing: Rows | None) -> Remarks:
        """Remarks on a batch alone: raw cells, what `parse_column` made of them, missing rows."""
        found = Remarks(self._attribute)
        found.times = None if self.times is None else set()  # many: not looked for again
        found._add(cells, column, missing)
        return found

    def _add(self, cells: pa.Array, column: Column, missing: Rows | None) -> None:
        if missing is not None and missing.any():
            self.declared += _count_declared(cells)
            rows = pa.array(np.flatnonzero(missing))
            coded = bool(codes_of(self._attribute))
            self._count_words((_unfolded if coded else plain_cells)(cells).take(rows))
        for code, label in self._listed.items():
            if found := int((column == code).sum()):
                self.listed[label] += found
        if isinstance(self._attribute, Date):
            self._add_times(plain_cells(cells))
        if self._forms:
            self._add_near(plain_cells(cells), column)

    def merge(self, document: Mapping[str, Any]) -> None:
        """Add what `to_document` returned."""
        for name in ("words", "coded", "listed", "near"):
            counts: Counter[str] = getattr(self, name)
            counts.update({str(word): int(count) for word, count in document[name].items()})
        self.declared += int(document["declared"])
        self.zones |= {str(zone) for zone in document["zones"]}
        times = document["times"]
        self._add_seconds(None if times is None else {int(each) for each in times})

    def to_document(self) -> dict[str, Any]:
        """Plain values, for `merge`."""
        times = None if self.times is None else sorted(self.times)
        words = {name: getattr(self, name) for name in ("words", "coded", "listed", "near")}
        more = {"declared": self.declared, "zones": sorted(self.zones), "times": times}
        return {**words, **more}

    def report(self) -> dict[str, Any]:
        """Fields of an attribute's report."""
        codes = self._attribute.missing_values or ()
        return {
            "missing_values": {code: CodeCount(words, self.coded[code]) for code, words in codes},
            "missing_words": dict(self.words),
            "listed_words": dict(self.listed),
            "near_labels": dict(self.near),
            "zones": tuple(sorted(self.zones)),
            "midnights": self._midnights(),
            "declared_missing": self.declared,
        }

    def _midnights(self) -> tuple[str, ...]:
        """The times of the day, if they look like midnights of a zone to the east."""
        times = sorted(self.times or ())
        late = [each for each in times if each >= _LATE_S]
        turned = sorted(each if each >= _LATE_S else each + _DAY_S for each in times)
        if not late or times == [_NOON_S] or any(each % _STEP_S for each in times):
            return ()
        if turned[-1] - turned[0] > _APART_S:
            return ()
        return tuple(f"{each // 3600:02}:{each // 60 % 60:02}" for each in times)

    def _count_words(self, cells: pa.Array) -> None:
        """Count codes of the study and words for missing, each distinct cell once."""
        if pa.types.is_null(cells.type) or pa.types.is_nested(cells.type):
            return  # nothing but null
        counts = cells.value_counts()
        texts = cell_texts(counts.field("values"))
        for text, count in zip(texts, counts.field("counts").to_pylist(), strict=True):
            if (code := _find_code(self._attribute, text.strip())) is not None:
                self.coded[code] += count
            elif (word := text.strip()) in MISSING_WORDS:
                self.words[word] += count

    def _add_near(self, cells: pa.Array, column: Column) -> None:
        """Count unknown cells that differ from a label only by what a normal form leaves out."""
        nothing = NOT_A_NUMBER if column.dtype == np.float64 else UNKNOWN
        rows = np.flatnonzero(column == nothing)
        if not len(rows) or not pa.types.is_large_binary(cells.type):
            return
        counts = cells.take(pa.array(rows)).value_counts()
        if len(counts) > _MOST_UNKNOWN:
            return
        texts = cell_texts(counts.field("values"))
        for text, count in zip(texts, counts.field("counts").to_pylist(), strict=True):
            label = self._forms.get(normal_form(text))
            if label is not None:
                self.near[label] += count

    def _add_times(self, cells: pa.Array) -> None:
        kind = cells.type
        if pa.types.is_timestamp(kind):
            seconds = None if self.times is None else local_seconds(cells.drop_null())
            for some in () if seconds is None else (seconds[:_FIRST], seconds[_FIRST:]):
                if self.times is not None:  # which the first few mostly settle
                    self._add_seconds(set(np.unique(some % _DAY_S).tolist()))
            if kind.tz:
                self.zones.add(kind.tz)
        elif self.times is not None and _may_have_times(cells):
            found = {seconds_of_text(text) for text in cell_texts(cells.unique())}
            self._add_seconds({each for each in found if each is not None})

    def _add_seconds(self, seconds: set[int] | None) -> None:
        both = None if self.times is None or seconds is None else self.times | seconds
        self.times = None if both is None or len(both) > _MOST_TIMES else both


def _count_declared(cells: pa.Array) -> int:
    if not pa.types.is_dictionary(cells.type) or not cells.dictionary.null_count:
        return 0
    return int(pc.sum(cells.dictionary.is_null().take(cells.indices)).as_py() or 0)


def _may_have_times(cells: pa.Array) -> bool:
    if not pa.types.is_large_binary(cells.type):
        return False
    longest = pc.max(pc.binary_length(cells)).as_py()
    return longest is not None and longest > _DAY_CHARACTERS


def _find_code(attribute: Attribute, word: str) -> str | None:
    """Return the code for missing that the text of a missing cell is; None for other texts."""
    codes = codes_of(attribute)
    if isinstance(attribute, Numeric) and list_labels(attribute) is None:
        value = value_of(attribute, word)
        same = (code for code in codes if np.isfinite(value) and value_of(attribute, code) == value)
        if (code := next(same, None)) is not None:
            return code
    place = label_finder(codes)(word)
    return None if place is None else codes[place]


def _unfolded(cells: pa.Array) -> pa.Array:
    """Return cells without extension, runs or dictionary; texts as binary, short floats in full."""
    if isinstance(cells.type, pa.BaseExtensionType):
        return _unfolded(of_extension(cells.type.extension_name, cells.storage))
    if pa.types.is_run_end_encoded(cells.type):
        return _unfolded(pc.run_end_decode(cells))
    if pa.types.is_dictionary(cells.type):
        return _unfolded(cells.dictionary).take(cells.indices)
    if is_short(cells.type):
        return pa.array(shortest_decimals(cells), from_pandas=True)
    plain = plain_cells(cells)
    return cells if pa.types.is_null(plain.type) else plain
