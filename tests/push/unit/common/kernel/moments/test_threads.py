"""BLAS has one thread inside a block, in whichever thread it stands, and its old number after.

threadpoolctl 3.8 obeys the first thread that sets a number, and ignores all others without a word
while that one lives.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from dppca.common.kernel.moments.threads import one_blas_thread
from tests.support.blas import MANY, counted, many_blas_threads
from tests.support.checkout import ROOT


def counted_inside() -> set[int]:
    with one_blas_thread():
        return counted()


class Elsewhere:
    """A thread that lives until the end of a test, and enters and leaves a block when told."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._block = ExitStack()

    def enter(self) -> None:
        self.run(lambda: self._block.enter_context(one_blas_thread()))

    def leave(self) -> None:
        self.run(self._block.close)

    def run(self, call: Callable[[], Any]) -> Any:
        return self._pool.submit(call).result()

    def end(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def others() -> Iterator[tuple[Elsewhere, Elsewhere]]:
    pair = (Elsewhere(), Elsewhere())
    yield pair
    for each in pair:
        each.end()


@pytest.fixture(autouse=True)
def many() -> Iterator[None]:
    with many_blas_threads():
        yield


def test_a_block_in_a_second_thread_is_obeyed_after_one_in_the_first(
    others: tuple[Elsewhere, Elsewhere],
) -> None:
    first, second = others
    for thread in (first, second, first):
        assert thread.run(counted_inside) == {1}
        assert counted() == {MANY}
    assert counted_inside() == {1}
    assert counted() == {MANY}


def test_the_last_to_leave_restores_the_number_whoever_came_first(
    others: tuple[Elsewhere, Elsewhere],
) -> None:
    first, second = others
    first.enter()
    second.enter()
    first.leave()
    assert counted() == {1}
    second.leave()
    assert counted() == {MANY}


def test_another_threads_own_limit_can_be_lifted_after_a_block(
    others: tuple[Elsewhere, Elsewhere],
) -> None:
    """A user's code: `threadpoolctl` without ``with``, held by a thread that goes on."""
    user, ours = others
    limits = user.run(lambda: ThreadpoolController().limit(limits=2, user_api="blas"))
    held = counted()
    assert ours.run(counted_inside) == {1}
    assert counted() == held
    user.run(limits.restore_original_limits)
    assert ours.run(counted_inside) == {1}


def test_many_threads_at_once_end_with_the_number_of_the_beginning() -> None:
    square = np.eye(8)

    def multiply(_: int) -> set[int]:
        with one_blas_thread():
            square @ square
            return counted()

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(multiply, range(40))] == [{1}] * 40
    assert counted() == {MANY}


def test_no_other_module_of_the_product_limits_blas() -> None:
    """`threadpool_limits` would be ignored in a thread. OpenMP's number is each thread's own."""
    using = {
        str(path.relative_to(ROOT)): re.findall(r"threadpool_limits\((.*)\)", text)
        for room in ("common", "owner", "curator", "deploy")
        for path in (ROOT / room).rglob("*.py")
        if "threadpool_limits" in (text := path.read_text())
    }
    assert using == {
        "common/analysis/estimators/utility.py": ['1, user_api="openmp"'],
        "common/transport/preloaded.py": [  # a new process, whose only thread this is
            'int(environment.get("OPENBLAS_NUM_THREADS", os.cpu_count() or 1))'
        ],
    }
