"""What the curator keeps, so that a killed daemon continues where it was."""

from dppca.curator.store.blobs import Spool
from dppca.curator.store.sqlite import SqliteStore, StoreSize

__all__ = ["Spool", "SqliteStore", "StoreSize"]
