"""Compiled functions that several packages share: elementary functions, products, SIMD, SGD steps."""
