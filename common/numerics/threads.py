"""Threads that compute: how many cores there are, and BLAS with one thread for a while.

One is for products that are small or already shared out to threads.
On a busy machine BLAS' own threads wait for each other at every block: products of 24 columns
took a thousand times as long with two as with one (decision 46). The number of threads
belongs to the process, so overlapping uses in several threads are counted, and the last one to
leave puts back what the first has found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_inside = 0
_limit: Any = None
_controllers: dict[bool, Any] = {}


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Products inside the block are not shared out by BLAS; those of other threads neither."""
    global _inside, _limit
    with _lock:
        if not _inside:
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _limit.restore_original_limits()


def count_cores() -> int:
    """Cores that this process may use, at least one; affinity and quotas of groups count."""
    from joblib import cpu_count  # of every system; a tenth of a second, which few commands need

    return max(1, int(cpu_count()))


def _controller() -> Any:
    """Finding the libraries takes a while; SciPy brings one of its own, once it is imported."""
    with_scipy = "scipy.linalg" in sys.modules
    if with_scipy not in _controllers:
        _controllers[with_scipy] = ThreadpoolController()
    return _controllers[with_scipy]
