#!/bin/bash
# threadpoolctl 3.8.0 (numpy 2.4.6's OpenBLAS, Python 3.11): the first thread that sets a number of BLAS threads is the only
# one that is obeyed while it lives. `ThreadpoolController().limit(...)` and `with threadpool_limits(...)` in another
# thread set nothing and say nothing, and so does `restore_original_limits()`: where the first thread has left and another
# one restores, the number stays as it was set. 3.7.0 obeys every thread.
# Leaves with 0 while this is so, and with 1 once it has changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install numpy==2.4.6
cat > "$work/try.py" <<'END'
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy  # noqa: F401
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits


def counted():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def counted_inside():
    with threadpool_limits(1, user_api="blas"):
        return counted()


limit = ThreadpoolController().limit(limits=3, user_api="blas")  # this thread is the first
other = ThreadPoolExecutor(1)
inside = other.submit(counted_inside).result()
other.submit(limit.restore_original_limits).result()
print("threadpoolctl", version("threadpoolctl"), "- in another thread's block:", inside, "- restored there:", counted())
sys.exit((inside, counted()) != (([3], [3]) if sys.argv[1] == "ignored" else ([1], [2])))
END
export OPENBLAS_NUM_THREADS=2
"$work/venv/bin/pip" -q install threadpoolctl==3.7.0
"$work/venv/bin/python" "$work/try.py" obeyed
"$work/venv/bin/pip" -q install threadpoolctl==3.8.0
"$work/venv/bin/python" "$work/try.py" ignored
