"""The store: an index of records and references in SQL. `open()` it, write through it, ask ladder.store.queries."""

from ladder.store.store import Store
from ladder.store.store import open_store as open

__all__ = ["Store", "open"]
