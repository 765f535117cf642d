"""What runs on a Dask cluster alone: connecting, comparing versions, handing out work, naming failures."""
