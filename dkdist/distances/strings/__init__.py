"""Distances of strings: edit distances by bit-parallel columns, SIMD lanes and bands."""
