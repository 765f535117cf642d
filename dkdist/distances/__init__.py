"""Distances between objects, and embeddings by distances to random objects."""
