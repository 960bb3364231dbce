"""Our study for the neighbours that others have.

The product's neighbours hold equally many rows and differ in one, unless a study says
``neighbours: added``: then one has a row more, and the number of rows is a noised entry of the
release. Most makers of synthetic tables count so. To stand in one table with them, ours is such a
study, of one row a person.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from benchmarks.releases import state_privacy, state_study
from dppca.common.kernel.study import Study


class Neighbours(StrEnum):
    """Which tables are neighbours."""

    REPLACED = "one row replaced"
    ADDED = "one row added or removed"


def make_study(
    document: Mapping[str, Any],
    *,
    epsilon: str,
    delta: str,
    owners: int,
    neighbours: Neighbours,
) -> Study:
    """A study with noise for a relation.

    Parameters
    ----------
    document
        The schema's, without grid and row limit.
    delta
        Of Gaussian noise; empty for Laplace noise, which has none.
    """
    relation = {"neighbours": "added"} if neighbours is Neighbours.ADDED else {}
    privacy = state_privacy(epsilon, delta)
    return state_study("rivals", {**document, **relation}, privacy, owners=owners)
