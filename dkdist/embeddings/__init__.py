"""Embeddings of sets as rows: densities, moments, summaries, n-grams; scaling of points."""
