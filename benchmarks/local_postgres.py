"""A PostgreSQL server of its own, in a folder that goes away; benchmarks and tests start it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ACCOUNT = "postgres"  # the server refuses to run as root


def find_programs() -> Path | None:
    """Folder of ``initdb`` and ``pg_ctl``; None where no server is installed."""
    initdb = shutil.which("initdb")
    if initdb:
        return Path(initdb).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def server_address(folder: Path, role: str = "postgres", database: str = "postgres") -> str:
    """What libpq takes."""
    return f"postgresql:///{database}?host={folder}&user={role}"


@contextmanager
def start_server(
    programs: Path, *, buffers: str = "16MB", tls: tuple[int, bytes, bytes] | None = None
) -> Iterator[Path]:
    """Start a server that trusts everybody who can open its socket; gives the socket's folder.

    With ``tls``, a port, a certificate and its key (PEM), it listens on loopback too, for
    connections with TLS and without.
    """
    # A socket's path is short, and the server's account must get there.
    folder = Path(tempfile.mkdtemp(prefix="dppca-pg-"))
    try:
        folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, _ACCOUNT)
        data = str(folder / "data")
        settings = f"-c listen_addresses= -c fsync=off -c shared_buffers={buffers} -k {folder}"
        if tls is not None:
            settings += f" -c listen_addresses=127.0.0.1 -p {tls[0]} -c ssl=on"
            for kind, content in zip(("cert", "key"), tls[1:], strict=True):
                kept = folder / f"{kind}.pem"
                kept.write_bytes(content)
                kept.chmod(0o600)
                if os.geteuid() == 0:
                    shutil.chown(kept, _ACCOUNT)
                settings += f" -c ssl_{kind}_file={kept}"
        _run(programs / "initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--no-sync")
        start = ("start", "-w", "-D", data, "-l", str(folder / "log"))
        _run(programs / "pg_ctl", *start, "-o", settings)
        try:
            yield folder
        finally:
            _run(programs / "pg_ctl", "stop", "-D", data, "-m", "immediate", check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: object, check: bool = True) -> None:
    account = ["runuser", "-u", _ACCOUNT, "--"] if os.geteuid() == 0 else []
    subprocess.run(
        [*account, *map(str, command)], check=check, capture_output=True, cwd="/", timeout=120
    )
