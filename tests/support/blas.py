"""Numbers of BLAS threads of this process, for tests of what limits them."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np  # noqa: F401 - has a BLAS
import scipy.linalg  # noqa: F401 - has another one
from threadpoolctl import OpenBLASController, ThreadpoolController, threadpool_info

MANY = 3
"""Where one thread is usual, as in `make test`, one inside a block would prove nothing."""


def counted() -> set[int]:
    """Numbers of threads of all BLAS libraries of this process."""
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@contextmanager
def many_blas_threads() -> Iterator[None]:
    """Set `MANY` threads, from this thread, which lives on and is then the one that is obeyed."""
    usual = counted()
    _obey_this_thread()
    limits = ThreadpoolController().limit(limits=MANY, user_api="blas")
    assert counted() == {MANY}
    try:
        yield
    finally:
        _obey_this_thread()
        limits.restore_original_limits()
    assert counted() == usual


def _obey_this_thread() -> None:
    """Undo what earlier tests of this process have left, since threadpoolctl 3.8."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)
