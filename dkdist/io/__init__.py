"""Stores of sample sets: Zarr directories that are written once, appended to, and read in blocks.

`write_sets` and `SetWriter` write, `open_sets` returns a lazy `SetStore`, and `StoreFormatError` reports invalid or
damaged stores. `readers` imports files of tables, arrays, cytometry and lidar.
"""

from dkdist.io._zarr.set_writer import SetWriter as SetWriter
from dkdist.io._zarr.verify import VerifyReport as VerifyReport
from dkdist.io.as_sets import as_sets as as_sets
from dkdist.io.errors import StoreFormatError as StoreFormatError
from dkdist.io.lazy_sets import LazySets as LazySets
from dkdist.io.readers.array_files import ArrayReader as ArrayReader
from dkdist.io.readers.fcs import CytometryReader as CytometryReader
from dkdist.io.readers.lidar import LidarReader as LidarReader
from dkdist.io.readers.nested_files import NestedReader as NestedReader
from dkdist.io.readers.sources import SourceError as SourceError
from dkdist.io.readers.table_files import TableReader as TableReader
from dkdist.io.readers.tile_features import HDF5Reader as HDF5Reader
from dkdist.io.set_store import SetStore as SetStore
from dkdist.io.set_store import open_sets as open_sets
from dkdist.io.write_sets import write_sets as write_sets
