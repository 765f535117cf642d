"""Locations of stores: local folders, zip files, URLs and Zarr store objects."""
