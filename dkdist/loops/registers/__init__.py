"""Loops in vector registers: what they are written with, transforms, products of small matrices, parts of arrays."""
