"""Embeddings: transformers that map each set to one row of numbers."""
