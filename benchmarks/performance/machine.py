"""What the timings were taken on, without a name that tells where."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from threadpoolctl import threadpool_info

from dppca.common.numerics.threads import count_cores

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


def load() -> float:
    """Processes that were running or waiting, over the last minute."""
    return round(os.getloadavg()[0], 2)


def peak_mib() -> float:
    """Most memory that this program has held, in MiB.

    Not ``ru_maxrss``, which a new program takes over from the process that started it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not say how much memory a process has held")


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
