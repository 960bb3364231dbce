"""Threads for computation: number of cores, and BLAS limited to one thread.

One thread suits products that are small or already distributed over threads. On a busy machine
BLAS' own threads wait for each other at every block: products of 24 columns took a thousand times
as long with two as with one. The number of threads belongs to the process, so overlapping uses in
several threads are counted, and the last one to leave restores the original number.

Limits: OpenBLAS on OpenMP, which NumPy's wheels are not made with, has a number for each thread.
A number that other code sets or restores while a block is open is lost.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

_lock = Lock()
_inside = 0
_limit: Any = None
_controllers: dict[bool, Any] = {}


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block, also for products of other threads."""
    global _inside, _limit
    with _lock:
        if not _inside:
            _free_limits()
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _free_limits()
                _limit.restore_original_limits()
                _free_limits()


def count_cores() -> int:
    """Number of cores that this process may use, at least one, by affinity and group quotas."""
    from joblib import cpu_count  # for every system; takes 0.1 s, and few commands need it

    return max(1, int(cpu_count()))


def _controller() -> Any:
    """Find the BLAS libraries, which takes a while; SciPy adds its own once it is imported."""
    with_scipy = "scipy.linalg" in sys.modules
    if with_scipy not in _controllers:
        _controllers[with_scipy] = ThreadpoolController()
    return _controllers[with_scipy]


def _free_limits() -> None:
    """Let any thread set a number: threadpoolctl 3.8 obeys the first one alone, while it lives."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)
