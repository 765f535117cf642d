"""Distances of strings: the edit distance by bit-parallel columns, in lanes and in bands."""
