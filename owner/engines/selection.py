"""Opening of the engine that a policy or an option names."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from dppca.common.kernel.errors import SettingError
from dppca.common.shell.packages import require_package, show_packages
from dppca.owner.engines.addresses import CLUSTER, LOCAL, SPARK, require_engine
from dppca.owner.engines.engine import Engine, LocalEngine


@contextmanager
def open_engine(text: str, folder: Path) -> Iterator[Engine]:
    """Open and check an engine by its name (`dppca.owner.engines.addresses`); close it at the end.

    A TLS scheduler needs the files in the folder ``cluster`` of ``folder``, the site's. Raise
    `SettingError` or `UnreachableError` as `ClusterEngine.check` does, or if the engine is not
    installed or its files are missing.
    """
    try:
        require_engine(text)
    except ValueError as error:
        raise SettingError(f"{text}: {error}") from None
    with _open(text, folder) as engine:
        engine.check()
        yield engine


def _open(text: str, folder: Path) -> AbstractContextManager[Engine]:
    if text == LOCAL:
        return nullcontext(LocalEngine())
    show_packages()
    if text == SPARK:
        return _open_declared(text)
    require_package("distributed", purpose="an engine of Dask")
    from dppca.owner.engines.dask import open_dask

    return open_dask(text, folder / CLUSTER)


def _open_declared(kind: str) -> AbstractContextManager[Engine]:
    """Open an engine that an installed wheel declares as an entry point, in ``dppca.engines``."""
    from importlib.metadata import entry_points

    for declared in entry_points(group="dppca.engines", name=kind):
        engine: AbstractContextManager[Engine] = declared.load()()
        return engine
    raise SettingError(
        f"no installed wheel has an engine {kind}: install the wheel dppca of this version again"
    )
