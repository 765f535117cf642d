"""Loops in vector registers: what they are written with, transforms and products of small matrices."""
