"""Distances between objects, embeddings by distances to random objects."""
