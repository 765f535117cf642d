"""Kernel distances of point sets that are read block by block: dask and Zarr arrays, and stores."""
