from contextlib import ExitStack

import pytest

from dppca.common.kernel.errors import BusyError
from dppca.curator.service.place_limiter import PlaceLimiter


def test_an_owner_has_its_places_and_all_owners_together_theirs() -> None:
    limiter = PlaceLimiter("uploads", max_total=3, per_owner=2)
    with ExitStack() as taken:
        for owner in ("a", "a", "b"):
            taken.enter_context(limiter.take(owner))
        with pytest.raises(BusyError, match="a has 2 uploads"), limiter.take("a"):
            pass
        with pytest.raises(BusyError, match="3 uploads"), limiter.take("c"):
            pass
    with ExitStack() as taken:
        for owner in ("c", "c", "a"):
            taken.enter_context(limiter.take(owner))


def test_a_place_is_free_again_after_a_failure() -> None:
    limiter = PlaceLimiter("uploads", max_total=1, per_owner=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limiter.take("a"):
            raise ZeroDivisionError
    with limiter.take("b"):
        pass
