"""What a Dask dashboard shows of a run: curves of loss and speed, names of stages, reports."""
