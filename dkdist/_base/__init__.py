"""Common code of embeddings: base class, inputs, invalid and oversized sets, random streams, parameter checks."""
