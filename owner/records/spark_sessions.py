"""Spark sessions, as the environment names them, and the conditions that they must meet.

``SPARK_REMOTE`` names a server of Spark Connect, an installed Databricks Connect its workspace, and
``SPARK_HOME`` or ``SPARK_CONF_DIR`` a cluster; without them Spark runs on this machine. All access
is through DataFrames: Databricks refuses RDDs.

Rows, and sums before noise, travel between Spark's processes. A session that is started here
authenticates and encrypts these connections; a session that is not on this machine alone is refused
if it does not. On this machine alone it listens on loopback: otherwise Spark takes the address of
an interface, perhaps of a network of containers that is removed meanwhile. Its log is turned off,
in this process and in executors that it starts, and its errors are reported in this project's
words: either may quote a row. Executors of a session that others have started keep their log.
"""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

from dppca.common.kernel.documents.names import is_loopback
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.shell.packages import require_package, show_packages
from dppca.common.shell.shutdown import on_exit

_LOCAL: Final = re.compile(r"local(\[[^\]]*\])?")
_AUTHENTICATED: Final = "spark.authenticate"
_ENCRYPTED: Final = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_STARTED_WITH: Final = {
    _AUTHENTICATED: "true",
    _ENCRYPTED[0]: "true",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The level above does not reach the executors' own logs: they log to nowhere.
    "spark.executor.defaultJavaOptions": (
        "-Dslf4j.provider=org.slf4j.helpers.NOP_FallbackServiceProvider"
    ),
}
_ON_LOOPBACK: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_MASTER: Final = re.compile(r"(?:--master|\bspark\.master)[ =]+[\"']?([^\s\"']+)")
_ELSEWHERE: Final = ("SPARK_HOME", "SPARK_CONF_DIR")
"""Variables that lead to a file of settings, which may name a master."""
_JAVA_ENDS_S: Final = 30.0  # for Java to end
_NOISY_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark that print errors, with a row's value, on standard error."""
_REASONS: Final = {
    "42P01": "the table or view does not exist, or this user may not see it: correct policy.yaml",
    "42P08": "the catalogue does not exist: correct policy.yaml",
    "42704": "the catalogue or schema does not exist: correct policy.yaml",
    "42703": "a column does not exist: correct the view, or the study's schema",
    "42501": "this user may not read it: ask for SELECT on it",
    "0A000": "it has no versions, or not this one: correct version, or leave it out",
    "22": "a view fails on a row: let it give the column as it is, without a conversion",
}
"""Explanations of Spark's errors by SQLSTATE or its class."""
_OTHERWISE: Final = (
    "Spark gave no reason that may be shown: workers or the connection were lost, or a view fails "
    "on a row (let it give columns as they are, without a conversion)"
)


def open_session() -> Any:
    """Open the session that the environment names, an existing or a new one.

    Raise `SettingError` if Spark is not installed or does not start, or its connections are not
    private.
    """
    remote = os.environ.get("SPARK_REMOTE", "")
    require_private_remote(remote)
    if is_local(remote):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in _NOISY_LOGGERS:
        logging.getLogger(name).disabled = True
    show_packages()
    require_package("pyspark.sql", purpose="an engine of Spark")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    try:
        from databricks.connect import DatabricksSession
    except ImportError:
        for name, value in ({} if remote else start_settings(os.environ)).items():
            builder = builder.config(name, value)
    else:
        builder = DatabricksSession.builder
    try:
        with _silenced_output():
            session = builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 - from Java, Py4J, gRPC, Spark; may quote an address
        raise SettingError(
            f"Spark does not start, or does not answer ({name_causes(error)}): run `pyspark` in "
            "the same environment to see why. It needs Java 17; a standalone cluster needs "
            "spark.authenticate.secret, as its workers have it; SPARK_REMOTE is for a server of "
            "Spark Connect"
        ) from None

    _end_with_this_process(session)
    read = partial(read_setting, session)
    require_private_cluster(read)
    if not remote and is_local(read("spark.master") or "") and "PYSPARK_PYTHON" not in os.environ:
        session.sparkContext.pythonExec = sys.executable
    return session


def start_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of a new session; on loopback unless the environment names a cluster."""
    master = _MASTER.search(environment.get("PYSPARK_SUBMIT_ARGS", ""))
    if master is None:
        alone = not any(environment.get(name) for name in _ELSEWHERE)
    else:
        alone = is_local(master[1])
    return _STARTED_WITH | (_ON_LOOPBACK if alone else {})


def read_setting(session: Any, name: str) -> str | None:
    """Effective setting of a name; None if it is not set or not shown.

    The session's own settings do not count: a builder writes its settings into an existing session,
    whose connections stay unchanged.
    """
    with suppress(Exception):  # a setting that a platform does not show counts as not set
        by_connect = is_by_connect(session)
        settings = session.conf if by_connect else session.sparkContext.getConf()
        value: str | None = settings.get(name, None)
        return value
    return None


def is_by_connect(session: Any) -> bool:
    """Return True if the session uses Spark Connect, as Databricks' sessions do."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def name_causes(error: BaseException) -> str:
    """Names of an error's classes, in Python and in Java, without a word of any message."""
    names = [type(error).__name__]
    with suppress(Exception):  # Java may have ended
        names.extend(filter(None, [error.getCondition()]))  # type: ignore[attr-defined]
    with suppress(Exception):
        cause = error.java_exception  # type: ignore[attr-defined]
        while cause is not None:
            names.append(cause.getClass().getName())
            cause = cause.getCause()
    return ", ".join(names)


@cache
def _end_with_this_process(session: Any) -> None:
    """Wait for the Java that this process started: it may lock a metastore until it has ended."""

    def end() -> None:
        from pyspark import SparkContext

        gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no public name for it
        with suppress(Exception):  # it may be gone already
            session.stop()
        process = getattr(gateway, "proc", None)
        if process is None:  # Spark Connect, or a Java that another process started
            return
        gateway.shutdown()
        process.stdin.close()
        try:
            process.wait(_JAVA_ENDS_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    on_exit(end)


def is_local(master: str) -> bool:
    """Return True if a master is a process of the machine that started it, and nothing else."""
    return _LOCAL.fullmatch(master) is not None


def require_private_remote(address: str) -> None:
    """Refuse an unencrypted server of Spark Connect; the address is not repeated.

    ``address`` is ``SPARK_REMOTE``, such as ``sc://HOST:PORT/;token=...``; empty for none.
    """
    if not address or is_local(address):
        return
    host, parameters = _split_remote(address)
    # Spark's client sends a token only by TLS.
    if is_loopback(host) or "token" in parameters or parameters.get("use_ssl") == "true":
        return
    raise SettingError(
        "SPARK_REMOTE names a server on another machine without TLS, and sums before noise would "
        "cross the network unencrypted: end it with /;use_ssl=true, or with ;token=TOKEN"
    )


def require_private_cluster(read: Callable[[str], str | None]) -> None:
    """Refuse a cluster whose machines communicate unencrypted or without authentication.

    ``read`` returns a setting of the session by its name; None if it is not set or not shown.
    """
    if is_local(read("spark.master") or ""):
        return
    if read(_AUTHENTICATED) == "true" and any(read(name) == "true" for name in _ENCRYPTED):
        return
    raise SettingError(
        "sums before noise would cross the Spark cluster unencrypted, or reach anybody who asks "
        "for them: set spark.authenticate and spark.network.crypto.enabled (or "
        "spark.ssl.rpc.enabled) to true in the cluster's configuration, and start it again"
    )


@contextmanager
def translated_errors(title: str) -> Iterator[None]:
    """Translate Spark's errors into a `DataError`; Spark's own message may quote a row."""
    try:
        yield
    except Exception as error:
        state = _sql_state(error)
        if state is None:
            raise
        reason = _REASONS.get(state) or _REASONS.get(state[:2]) or _OTHERWISE
    else:
        return
    raise DataError(f"{title} cannot be read: {reason}") from None


@contextmanager
def _silenced_output() -> Iterator[None]:
    """Keep the output of a Java that is started here, now and later, out of our output."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for number, descriptor in enumerate(kept, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nowhere)


def _sql_state(error: Exception) -> str | None:
    """SQLSTATE, empty if there is none; None for an error that is not Spark's."""
    if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
        return None
    ask = getattr(error, "getSqlState", None)
    return str((ask() if ask is not None else None) or "")


def _split_remote(address: str) -> tuple[str, dict[str, str]]:
    """Host and parameters of an address; empty if it cannot be parsed."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return "", {}
    pairs = (each.partition("=") for each in parts.path.lstrip("/").split(";") if "=" in each)
    return host, {name: value for name, _, value in pairs if value}
