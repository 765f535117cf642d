"""Sliced Wasserstein distances: between two sets, and as the distance between rows of an embedding."""
