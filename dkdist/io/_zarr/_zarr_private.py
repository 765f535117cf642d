"""Private names of Zarr that stores use: buffers, the event loop, metadata. Changes in Zarr affect only this module."""

from zarr.core.buffer import Buffer as Buffer
from zarr.core.buffer import BufferPrototype as BufferPrototype
from zarr.core.buffer import default_buffer_prototype as default_buffer_prototype
from zarr.core.metadata import ArrayV3Metadata as ArrayV3Metadata
from zarr.core.sync import sync as sync  # uses the event loop of Zarr's synchronous API
