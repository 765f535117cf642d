"""Embeddings of sets: one file for each."""
