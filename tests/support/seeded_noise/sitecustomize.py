"""Seed for the noise of every DPPCA command of a process that has this in its search path.

Python imports the file at its start. The seed follows from the command line without folders and
ports, so every command of a run draws other noise, and the same as in the next run of the test.
"""

import hashlib
import os
import re
import select
import sys
import time
from contextlib import suppress
from pathlib import Path

with suppress(ImportError):  # another interpreter's, without our packages
    from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy, SeededEntropy

    _LINE = "\0".join(re.sub(r":\d+$", "", Path(part).name) for part in sys.orig_argv)
    _SOURCE = SeededEntropy(int.from_bytes(hashlib.sha256(_LINE.encode()).digest()[:6]))
    OperatingSystemEntropy.bytes = lambda _, count: _SOURCE.bytes(count)  # type: ignore[method-assign]

if "libfaketime" in os.environ.get("LD_PRELOAD", ""):  # else EINVAL: see tests.support.moved_clock
    time.sleep = lambda seconds: select.select([], [], [], seconds) and None
