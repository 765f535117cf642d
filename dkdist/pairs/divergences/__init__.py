"""Divergences of all pairs of sets: the matrix, and the estimators of one pair."""
