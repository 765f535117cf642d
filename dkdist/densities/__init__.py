"""Embeddings by densities: divergences (P1), L2, histograms."""
