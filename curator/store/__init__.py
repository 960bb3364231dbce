"""What the curator keeps, so that a killed daemon continues where it was.

`Store` is the one interface; `SqliteStore` is the one implementation, and
``tests/push/contract/test_store.py`` is what another would have to pass.
"""

from dppca.curator.store.blobs import Spool
from dppca.curator.store.interface import Store, StoreSize
from dppca.curator.store.sqlite import SqliteStore

__all__ = ["Spool", "SqliteStore", "Store", "StoreSize"]
