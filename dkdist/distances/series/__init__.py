"""Distances of series: the cheapest way through a table of n x m cells, in lanes or along its diagonals."""
