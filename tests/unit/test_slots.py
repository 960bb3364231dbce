from __future__ import annotations

from contextlib import ExitStack

import pytest

from common.errors import BusyError
from curator.service.slots import Slots


def test_an_owner_has_its_places_and_all_owners_together_theirs() -> None:
    slots = Slots(total=3, each=2)
    with ExitStack() as taken:
        for owner in ("a", "a", "b"):
            taken.enter_context(slots.take(owner))
        with pytest.raises(BusyError, match="a has 2 uploads"), slots.take("a"):
            pass
        with pytest.raises(BusyError, match="3 uploads"), slots.take("c"):
            pass
    with ExitStack() as taken:
        for owner in ("c", "c", "a"):
            taken.enter_context(slots.take(owner))


def test_a_place_is_free_again_after_a_failure() -> None:
    slots = Slots(total=1, each=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), slots.take("a"):
            raise ZeroDivisionError
    with slots.take("b"):
        pass
