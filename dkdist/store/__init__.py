"""The store: sample sets in a Zarr directory, written once, appended to, and read block by block.

`write_sets` and `SetWriter` write, `open_sets` gives a lazy `SetStore`, and `StoreFormatError` says what is
wrong with a store.
"""

from dkdist.store.importing.array_files import ArrayReader as ArrayReader
from dkdist.store.importing.cytometry_files import CytometryReader as CytometryReader
from dkdist.store.importing.lidar_files import LidarReader as LidarReader
from dkdist.store.importing.sources import SourceError as SourceError
from dkdist.store.importing.table_files import TableReader as TableReader
from dkdist.store.reading.verify import VerifyReport as VerifyReport
from dkdist.store.refusals import StoreFormatError as StoreFormatError
from dkdist.store.set_store import SetStore as SetStore
from dkdist.store.set_store import open_sets as open_sets
from dkdist.store.write_sets import write_sets as write_sets
from dkdist.store.writing.set_writer import SetWriter as SetWriter
