"""Ranks of coordinates among all points of both samples, and what samples are compared by in them."""
