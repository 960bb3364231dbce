"""What the timings were taken on, without a name that tells where."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from dppca.common.kernel.moments.threads import count_cores

_LIBRARIES = ("numpy", "scipy", "pyarrow", "scikit-learn", "grpcio", "opendp")


def machine_facts() -> dict[str, str]:
    """Processor, cores, memory, system and versions of the libraries that do the work."""
    return {
        "processor": _processor(),
        "cores": str(count_cores()),
        "memory": f"{_memory_bytes() / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
        "BLAS": _blas(),
    }


def today() -> str:
    """The day, by Greenwich time, on which figures are made."""
    return datetime.now(UTC).date().isoformat()


def made_here() -> dict[str, str]:
    """What is kept beside each figure of a file that several machines fill: day and processor."""
    return {"date": today(), "processor": _processor()}


def load() -> float:
    """Processes that were running or waiting, over the last minute."""
    return round(os.getloadavg()[0], 2)


def run_apart(function: Callable[..., object], *arguments: object) -> Any:
    """What a module's function returns in a process of its own; arguments and result are plain."""
    imported = f"from {function.__module__} import {function.__name__} as function"
    call = f"import json; {imported}; print(json.dumps(function(*{arguments!r})))"
    done = subprocess.run([sys.executable, "-c", call], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _blas() -> str:
    import scipy.linalg.blas  # noqa: F401 - loads SciPy's own

    facts = {
        f"{each['internal_api']} {each['version']} ({each.get('architecture', 'unknown')} kernels)"
        for each in threadpool_info()
        if each["user_api"] == "blas"
    }
    return ", ".join(sorted(facts))
