"""Splines of points on a mesh."""
