"""Embeddings by moments, and features that symmetries of the axes do not change."""
