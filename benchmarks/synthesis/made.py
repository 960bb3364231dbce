"""Tables that are made from a seed, and public schemas of them: nobody's rows.

curved
    Ten numbers that follow four hidden ones along curves, and a label of about a third of the rows
    that depends on bands of them: no relation with the label rises or falls steadily.
rare
    Six numbers, three labels, and an event of about one row in fifty, which mostly rises with the
    numbers.
tiers
    Nine labels, one of which is decided by the others in three steps, without chance: every
    combination of the others is as likely as the next.

A seed gives the law of a table, not only its rows: rules are calibrated on some seeds and shown on
others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.releases import label_attribute, numeric_attribute, numeric_attributes
from benchmarks.synthesis.subjects import Subject, Target
from dppca.common.kernel.schema import Column, Schema

Values = NDArray[np.float64]
_FREE = 4  # hidden numbers behind a curved table


def curved(seed: int, n_rows: int) -> Subject:
    """A table of numerics; its label is ``kind``."""
    rng = np.random.default_rng([1, seed])
    hidden = rng.standard_normal((n_rows, _FREE))
    columns = []
    for place in range(10):
        one, other = hidden[:, place % _FREE], hidden[:, rng.integers(_FREE)]
        shape = (
            one + 0.3 * other,
            one**2 - 1,
            1.5 * np.sin(1.5 * one + other),
            np.abs(one) * 1.5 - other**2 / 2,
            one * other,
        )[place % 5]
        columns.append(shape + rng.uniform(0.1, 0.6) * rng.standard_normal(n_rows))
    weights = rng.uniform(0.7, 1.3, 3)
    ring = weights[0] * (hidden[:, 0] ** 2 + hidden[:, 1] ** 2 - 2)
    bands = weights[1] * 1.5 * np.cos(2 * hidden[:, 2]) + weights[2] * hidden[:, 0] * hidden[:, 3]
    score = ring + bands + 0.7 * rng.logistic(size=n_rows)
    attributes = numeric_attributes(10, -5, 5)
    label = label_attribute("kind", ["no", "yes"])
    return _subject(f"curved-{seed}", [*attributes, label], [*columns, score > 1.2], "kind")


def rare(seed: int, n_rows: int) -> Subject:
    """A table with a label ``event`` that one row in fifty has."""
    rng = np.random.default_rng([2, seed])
    frailty = rng.standard_normal(n_rows)
    loads, signs = rng.uniform(0.2, 0.7, 6), rng.choice([-1.0, 1.0], 6)
    noise = rng.standard_normal((6, n_rows))
    numbers = [
        sign * load * frailty + np.sqrt(1 - load**2) * each
        for load, sign, each in zip(loads, signs, noise, strict=True)
    ]
    labels = [
        np.digitize(0.5 * frailty + rng.standard_normal(n_rows), cuts)
        for cuts in ((-1, 0, 1), (-0.3, 0.8), (0.5,))
    ]
    score = 1.1 * frailty + 0.5 * numbers[0] ** 2 + 0.6 * labels[2] * (numbers[1] > 1)
    score += rng.logistic(size=n_rows)
    event = score > 5.1 + 0.2 * rng.uniform(-1, 1)
    attributes = [numeric_attribute(f"x{place}", -4, 4) for place in range(6)]
    attributes += [label_attribute("place", list("abcd")), label_attribute("group", list("klm"))]
    attributes += [label_attribute("sex", ["f", "m"]), label_attribute("event", ["no", "yes"])]
    return _subject(f"rare-{seed}", attributes, [*numbers, *labels, event], "event")


def tiers(seed: int, n_rows: int) -> Subject:
    """A table of labels; ``class`` follows from the others."""
    rng = np.random.default_rng([3, seed])
    sizes = (3, 5, 4, 4, 3, 2, 3, 3)
    columns = [rng.integers(size, size=n_rows) for size in sizes]
    worth = [rng.permutation(size) for size in sizes]
    points = [each[column] for each, column in zip(worth, columns, strict=True)]
    work = np.digitize(points[0] + points[1], (2, 5))
    home = np.digitize(points[2] + points[3] + points[4], (3, 6))
    social = np.digitize(points[5] + points[6], (1, 3))
    decided = np.digitize(work + home + social, (2, 4))
    decided = np.where(points[7] == 0, 0, np.minimum(3, decided + (work == 2) * (home == 2)))
    attributes = [
        label_attribute(f"a{place}", list("abcde")[:size]) for place, size in enumerate(sizes)
    ]
    attributes.append(label_attribute("class", ["w", "x", "y", "z"]))
    return _subject(f"tiers-{seed}", attributes, [*columns, decided], "class", frozenset("yz"))


def _subject(
    name: str,
    attributes: Sequence[Mapping[str, Any]],
    columns: Sequence[NDArray[Any]],
    target: str,
    labels: frozenset[str] = frozenset({"yes"}),
) -> Subject:
    schema = Schema.from_document({"attributes": list(attributes)})
    coded: list[Column] = []
    for each, column in zip(attributes, columns, strict=True):
        if each["type"] == "numeric":
            coded.append(np.clip(column, each["lower"], each["upper"]))
        else:
            coded.append(column.astype(np.int32))
    asked = Target(target, target, labels, hidden=(target,))
    return Subject(name, schema, tuple(coded), (asked,))


MADE: dict[str, Callable[[], Subject]] = {
    "curved-1": partial(curved, 1, 15_000),
    "curved-2": partial(curved, 2, 40_000),
    "curved-3": partial(curved, 3, 24_000),
    "rare-1": partial(rare, 1, 20_000),
    "rare-2": partial(rare, 2, 40_000),
    "rare-3": partial(rare, 3, 25_000),
    "tiers-1": partial(tiers, 1, 13_000),
}
"""By name, with their seeds and sizes."""
