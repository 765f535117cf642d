"""Matrices of all pairs: distances and divergences, nearest sets, projections to kernels."""
