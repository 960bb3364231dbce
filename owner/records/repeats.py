"""The few values that most of many values have, in one pass and little memory, merged in any order.

At most 64 values are counted, by Misra and Gries: where there are more, each count loses what the
65th has. A count is too small by a 65th of all at most, so that a value which a quarter have is
never lost. What is found is of raw cells: it is `site-only`, and kept for one display.

Source: J. Misra and D. Gries, Finding repeated elements, Science of Computer Programming 2 (1982)
143-152; P. Agarwal and others, Mergeable summaries, PODS 2012.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.attributes import Date, day_text

_KEPT: Final = 64  # values counted at once
LEAST: Final = 5
"""Fewest rows of a value that is shown: below, it may be what one person has."""


class Repeats:
    """Values of several batches, and how many there were."""

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()
        self._total = 0

    def add(self, values: NDArray[np.float64]) -> None:
        """Count values of shape (n,), none of them NaN."""
        found, counts = np.unique(values, return_counts=True)
        self.merge(len(values), zip(found.tolist(), counts.tolist(), strict=True))

    def merge(self, total: int, counts: Iterable[tuple[float, int]]) -> None:
        """Add what `to_document` returned of other values."""
        self._total += total
        self._counts.update(dict(counts))
        if len(self._counts) > _KEPT:
            lost = sorted(self._counts.values())[-_KEPT - 1]
            self._counts -= Counter(dict.fromkeys(self._counts, lost))

    def to_document(self) -> tuple[int, list[tuple[float, int]]]:
        """Plain values, for `merge`."""
        return self._total, sorted(self._counts.items())

    @property
    def commonest(self) -> tuple[float, ...]:
        """The values that a quarter have each, and `LEAST` rows or more; the commonest first.

        Empty if these are not more than half together: two codes may share what one would have.
        """
        found = [(-n, v) for v, n in self._counts.items() if n >= LEAST and 4 * n >= self._total]
        enough = -2 * sum(n for n, _ in found) > self._total
        return tuple(v for _, v in sorted(found)) if enough else ()


def value_text(attribute: Numeric, value: float) -> str:
    """Return a value of a number or date, which may be out of bounds, as it stands in files."""
    if isinstance(attribute, Date):
        try:
            return day_text(value)
        except (ValueError, OverflowError):  # beyond the calendar
            return f"{value:.0f} days from 1970"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
