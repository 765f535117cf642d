"""Embeddings of sets as rows (densities, moments, summaries, n-grams), and scaling of points."""
