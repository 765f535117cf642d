"""The format "dkdist.sets" on Zarr: layout, checksums, locations, reading and writing."""
