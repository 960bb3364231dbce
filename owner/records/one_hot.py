"""Files with one-hot columns, read as if each group of them were one column of labels.

A group is an attribute and the columns that stand for its labels. A row has the label whose column
is 1 if all others are 0, in any spelling of these numbers, or true and false. In every other row
the attribute is missing: none or several are 1, or a cell is empty or neither. So a label depends
on the cells of its own row alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Categorical
from dppca.common.kernel.schema.columns import parse_column
from dppca.owner.records.locations import Location, Place
from dppca.owner.records.sources import Source, Wanted
from dppca.owner.records.text_format import TextFormat

Groups = Mapping[str, Mapping[str, str]]
"""For each attribute, the label that each of its one-hot columns stands for."""
_MARK = Categorical(name="mark", categories=("0", "false", "1", "true"))


@dataclass(frozen=True, slots=True)
class OneHotLocation(Location):
    """Location of files with one-hot columns."""

    files: Location
    one_hot: Groups

    @property
    def place(self) -> Place:
        """Place of the files (`Location.place`)."""
        return self.files.place

    @property
    def text_format(self) -> TextFormat | None:
        """How the files are written (`Location.text_format`)."""
        return self.files.text_format

    def written(self, text_format: TextFormat) -> Self:
        """Location of the same rows in another format (`Location.written`)."""
        return replace(self, files=self.files.written(text_format))

    def open(self) -> Source:
        """Open the files (`Location.open`)."""
        return OneHotSource.join(self.files.open(), self.one_hot)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHotSource(Source):
    """Rows of files, with one column of labels in the place of each group."""

    inner: Source
    one_hot: Groups
    uncut: ClassVar[str] = (
        "has one-hot columns, which this machine alone joins: leave out --engine, or export the "
        "rows with one column of labels"
    )

    @classmethod
    def join(cls, inner: Source, one_hot: Groups) -> Self:
        """Join the groups; raise `DataError` if a file lacks or repeats one of their columns."""
        for part in inner.parts:
            _require_groups(part, one_hot)
        joined = {column for group in one_hot.values() for column in group}
        return cls(
            title=inner.title,
            names=(*one_hot, *(name for name in inner.names if name not in joined)),
            n_rows=inner.n_rows,
            facts=inner.facts,
            is_named_by_a_line=inner.is_named_by_a_line,
            in_folders=inner.in_folders,
            inner=inner,
            one_hot=one_hot,
        )

    @property
    def is_pinned(self) -> bool:
        """As the files are (`Source.is_pinned`)."""
        return self.inner.is_pinned

    @property
    def parts(self) -> Sequence[Source]:
        """The files, each with its groups joined."""
        inner = self.inner.parts
        return [self.join(part, self.one_hot) for part in inner] if len(inner) > 1 else (self,)

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns, and join those of each group (`Rows.read`)."""
        own = [column for name in wanted.names for column in self.one_hot.get(name, (name,))]
        labels = [label for label in wanted.labels if label not in self.one_hot]
        marks = {column: _MARK for group in self.one_hot.values() for column in group}
        attributes = {**wanted.attributes, **marks}
        for arrays in self.inner.read(Wanted(own, wanted.batch_rows, labels, attributes)):
            columns = dict(zip(own, arrays, strict=True))
            yield [
                _join_labels([columns[each] for each in group], list(group.values()))
                if (group := self.one_hot.get(name))
                else columns[name]
                for name in wanted.names
            ]


def _require_groups(source: Source, one_hot: Groups) -> None:
    wanted = [column for group in one_hot.values() for column in group]
    source.require_known(wanted)
    wrong = {
        "lacks the one-hot columns": [name for name in wanted if name not in source.names],
        "has more than one of the one-hot columns": [
            name for name in wanted if source.names.count(name) > 1
        ],
        "has as columns of its own what one_hot joins": [
            name for name in one_hot if name in source.names and name not in wanted
        ],
    }
    said = [f"{what} {', '.join(names)}" for what, names in wrong.items() if names]
    if said:
        raise DataError(
            f"{source.title} {' and '.join(said)}: correct its header, or one_hot in the policy"
        )


def _join_labels(columns: Sequence[pa.Array], labels: Sequence[str]) -> pa.Array:
    """Label of the one column that is 1 in each row; null in other rows."""
    codes = np.column_stack([np.asarray(parse_column(_MARK, each), int) for each in columns])
    ones = codes >= _MARK.labels.index("1")
    is_known = (codes >= 0).all(axis=1) & (ones.sum(axis=1) == 1)
    return pa.array(np.asarray(labels, object)[ones.argmax(axis=1)], pa.string(), mask=~is_known)
