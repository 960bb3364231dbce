"""Names of engines: ``local``, ``spark``, ``dask://HOST:PORT`` or ``tls://HOST:PORT``."""

import re
from typing import Final

from dppca.common.kernel.documents.names import is_loopback

LOCAL: Final = "local"
SPARK: Final = "spark"
DASK: Final = "dask"
CLUSTER: Final = "cluster"
"""Folder in the site's folder: credentials for a scheduler that is reached by TLS."""
_DASK = re.compile(r"(dask|tls)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


def require_engine(value: str) -> str:
    """Return the name of an engine unchanged; raise `ValueError` for an invalid or unsafe one.

    Sums without noise travel between this machine, scheduler and workers: off this machine only
    through TLS.
    """
    if value in (LOCAL, SPARK):
        return value
    match = _DASK.fullmatch(value)
    if match is None:
        raise ValueError(
            f"the engine must be {LOCAL}, {SPARK}, dask://HOST:PORT on this machine, or "
            "tls://HOST:PORT of a Dask scheduler"
        )
    if match[1] == "dask" and not is_loopback(match[2].strip("[]")):
        raise ValueError(
            f"dask:// is for a scheduler on this machine; to another one sums without noise "
            f"travel by TLS alone: name it tls://{match[2]}:{match[3]}"
        )
    return value


def ledger_name(engine: str) -> str:
    """Name of an engine in the ledger: its kind without an address; empty for this process."""
    return {LOCAL: "", SPARK: SPARK}.get(engine, DASK)
