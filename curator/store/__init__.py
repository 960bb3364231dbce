"""Durable state of the curator, from which a killed daemon continues."""

from dppca.curator.store.blobs import Spool
from dppca.curator.store.sqlite import SqliteStore, StoreSize

__all__ = ["Spool", "SqliteStore", "StoreSize"]
