"""Dask, and only here: lazy arrays, bounded folds over blocks, plans, checkpoints."""
