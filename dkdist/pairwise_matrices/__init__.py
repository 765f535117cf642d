"""Pairwise matrices of distances and divergences, nearest-neighbour search, and projections to kernels."""
