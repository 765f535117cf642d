"""The store: sample sets in a Zarr directory, written once, appended to, and read block by block.

`write_sets` and `SetWriter` write, `open_sets` gives a lazy `SetStore`, and `StoreFormatError` says what is
wrong with a store.
"""

from dkdist.store.array_files import ArrayReader
from dkdist.store.errors import StoreFormatError
from dkdist.store.ingest import write_sets
from dkdist.store.sources import SourceError
from dkdist.store.table_files import TableReader
from dkdist.store.verify import VerifyReport
from dkdist.store.view import SetStore, open_sets
from dkdist.store.writer import SetWriter

__all__ = [
    "ArrayReader",
    "SetStore",
    "SetWriter",
    "SourceError",
    "StoreFormatError",
    "TableReader",
    "VerifyReport",
    "open_sets",
    "write_sets",
]
